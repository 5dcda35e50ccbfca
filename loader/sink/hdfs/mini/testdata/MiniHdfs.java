import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.key.KeyProvider;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSCluster.DataNodeProperties;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.UserGroupInformation;

/**
 * An HDFS cluster in one process, for tests. It prints "READY HOST:PORT[,HOST:PORT]", the NameNodes'
 * addresses, then takes a command a line and answers each with a line, "OK ..." or "ERR ...". It ends
 * with its standard input.
 *
 * <pre>
 * --dir DIR         where all its files are
 * --datanodes N     1 unless said
 * --ha              two NameNodes, the first one active
 * --kerberos DIR    a KDC; DIR gets krb5.conf, client.keytab (user sawlog) and hdfs.keytab
 * --conf KEY=VALUE  a setting of hdfs-site.xml or core-site.xml
 * </pre>
 */
public final class MiniHdfs {
  private final MiniDFSCluster cluster;
  private final boolean ha;
  private final List<DataNodeProperties> stopped = new ArrayList<>();
  private int active;

  private MiniHdfs(MiniDFSCluster cluster, boolean ha) {
    this.cluster = cluster;
    this.ha = ha;
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // what libraries print is no answer
    Configuration conf = new HdfsConfiguration();
    String dir = null;
    String kerberos = null;
    int datanodes = 1;
    boolean ha = false;
    defaults(conf);
    List<String> settings = new ArrayList<>();
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--dir" -> dir = args[++i];
        case "--datanodes" -> datanodes = Integer.parseInt(args[++i]);
        case "--ha" -> ha = true;
        case "--kerberos" -> kerberos = args[++i];
        case "--conf" -> settings.add(args[++i]);
        default -> throw new IllegalArgumentException(args[i]);
      }
    }
    if (kerberos != null) {
      kerberize(conf, new File(kerberos));
    }
    for (String s : settings) {
      conf.set(s.substring(0, s.indexOf('=')), s.substring(s.indexOf('=') + 1));
    }
    MiniDFSCluster.Builder builder = new MiniDFSCluster.Builder(conf, new File(dir)).numDataNodes(datanodes).checkExitOnShutdown(false);
    if (ha) {
      builder.nnTopology(MiniDFSNNTopology.simpleHATopology(2));
    }
    MiniHdfs mini = new MiniHdfs(builder.build(), ha);
    if (ha) {
      mini.cluster.transitionToActive(0);
    }
    mini.cluster.waitActive();
    out.println("READY " + mini.addresses());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null && !line.equals("quit"); line = in.readLine()) {
      try {
        out.println("OK " + mini.run(line.split(" ")));
      } catch (Throwable e) {
        e.printStackTrace();
        out.println("ERR " + String.valueOf(e).replaceAll("\\s+", " "));
      }
    }
    Runtime.getRuntime().halt(0); // nothing of it is used again
  }

  /** What a test needs to be quick about: small blocks, no waiting in safe mode, the dead soon known. */
  private static void defaults(Configuration conf) {
    conf.set("dfs.blocksize", "1048576");
    conf.set("dfs.namenode.fs-limits.min-block-size", "4096");
    conf.set("dfs.namenode.safemode.extension", "0");
    conf.set("dfs.heartbeat.interval", "1");
    conf.set("dfs.namenode.heartbeat.recheck-interval", "2000");
    conf.set("dfs.namenode.handler.count", "4");
    conf.set("dfs.datanode.handler.count", "4");
    conf.set("dfs.permissions.enabled", "true");
    conf.set("dfs.namenode.acls.enabled", "true");
    conf.set("dfs.client.use.datanode.hostname", "false");
  }

  /** A KDC, and services that ask for its tickets; SASL guards the ways to the DataNodes. */
  private static void kerberize(Configuration conf, File dir) throws Exception {
    Files.createDirectories(dir.toPath());
    Properties kdcConf = MiniKdc.createConf();
    for (String key : List.of(MiniKdc.MAX_TICKET_LIFETIME, MiniKdc.MAX_RENEWABLE_LIFETIME)) {
      String value = System.getProperty("minihdfs." + key);
      if (value != null) {
        kdcConf.setProperty(key, value);
      }
    }
    MiniKdc kdc = new MiniKdc(kdcConf, dir);
    kdc.start();
    Files.copy(kdc.getKrb5conf().toPath(), dir.toPath().resolve("client-krb5.conf"), java.nio.file.StandardCopyOption.REPLACE_EXISTING);
    File service = new File(dir, "hdfs.keytab");
    kdc.createPrincipal(service, "hdfs/localhost", "HTTP/localhost");
    kdc.createPrincipal(new File(dir, "client.keytab"), "sawlog");
    String principal = "hdfs/localhost@" + kdc.getRealm();
    String web = "HTTP/localhost@" + kdc.getRealm();
    conf.set("hadoop.security.authentication", "kerberos");
    conf.set("hadoop.security.authorization", "true");
    for (String role : List.of("namenode", "datanode", "journalnode")) {
      conf.set("dfs." + role + ".kerberos.principal", principal);
      conf.set("dfs." + role + ".keytab.file", service.getPath());
      conf.set("dfs." + role + ".kerberos.internal.spnego.principal", web);
    }
    conf.set("dfs.web.authentication.kerberos.principal", web);
    conf.set("dfs.web.authentication.kerberos.keytab", service.getPath());
    conf.set("dfs.block.access.token.enable", "true");
    conf.set("dfs.data.transfer.protection", "authentication");
    conf.set("ignore.secure.ports.for.testing", "true");
    conf.set("dfs.http.policy", "HTTP_ONLY");
    UserGroupInformation.setConfiguration(conf);
    UserGroupInformation.loginUserFromKeytab(principal, service.getPath());
  }

  private String addresses() {
    StringBuilder all = new StringBuilder();
    for (int i = 0; i < cluster.getNumNameNodes(); i++) {
      all.append(i == 0 ? "" : ",").append("127.0.0.1:").append(cluster.getNameNodePort(i));
    }
    return all.toString();
  }

  private String run(String[] w) throws Exception {
    switch (w[0]) {
      case "stop-dn" -> stopped.add(cluster.stopDataNode(Integer.parseInt(w[1])));
      case "start-dn" -> {
        for (DataNodeProperties dn : stopped) {
          cluster.restartDataNode(dn, true);
        }
        stopped.clear();
        cluster.waitActive(active);
      }
      case "restart-nn" -> {
        cluster.restartNameNode(active, false);
        if (ha) {
          cluster.transitionToActive(active);
        }
        cluster.waitActive(active);
      }
      case "kill-nn" -> cluster.shutdownNameNode(active);
      case "start-nn" -> {
        cluster.restartNameNode(active, false);
        if (ha) {
          cluster.transitionToActive(active);
        }
        cluster.waitActive(active);
      }
      case "failover" -> {
        if (cluster.getNameNode(active) != null && cluster.getNameNode(active).isActiveState()) {
          cluster.transitionToStandby(active);
        }
        active = 1 - active;
        cluster.transitionToActive(active);
        return "" + active;
      }
      case "safemode" -> fs().setSafeMode(w[1].equals("on") ? SafeModeAction.SAFEMODE_ENTER : SafeModeAction.SAFEMODE_LEAVE);
      case "mkdir" -> {
        fs().mkdirs(path(w[1]));
        fs().setPermission(path(w[1]), new FsPermission((short) Integer.parseInt(w[2], 8))); // no mask
      }
      case "ec" -> {
        String policy = w.length > 2 ? w[2] : "XOR-2-1-1024k";
        fs().enableErasureCodingPolicy(policy);
        fs().mkdirs(path(w[1]));
        fs().setErasureCodingPolicy(path(w[1]), policy);
      }
      case "ez" -> {
        KeyProvider keys = cluster.getNamesystem(active).getProvider();
        if (keys.getMetadata("zone") == null) {
          keys.createKey("zone", KeyProvider.options(cluster.getConfiguration(active)).setBitLength(128));
          keys.flush();
        }
        fs().mkdirs(path(w[1]));
        fs().createEncryptionZone(path(w[1]), "zone");
      }
      case "quota" -> fs().setQuota(path(w[1]), Long.parseLong(w[2]), HdfsConstants.QUOTA_DONT_SET);
      case "space-quota" -> fs().setQuota(path(w[1]), HdfsConstants.QUOTA_DONT_SET, Long.parseLong(w[2]));
      default -> throw new IllegalArgumentException("no such command: " + w[0]);
    }
    return String.join(" ", w);
  }

  private DistributedFileSystem fs() throws Exception {
    return cluster.getFileSystem(active);
  }

  private static org.apache.hadoop.fs.Path path(String name) {
    return new org.apache.hadoop.fs.Path(name);
  }
}
