import java.io.BufferedReader;
import java.io.File;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.util.ExitUtil;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.nodemanager.NodeManager;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/**
 * HDFS and YARN in one process, for tests; containers are processes of their own, as everywhere. It
 * prints "READY HOST:PORT", the NameNode's address, then takes a command a line and answers each with
 * a line, "OK ..." or "ERR ...". It ends with its standard input.
 *
 * <pre>
 * --dir DIR         where all its files are; DIR/site gets the configuration of its clients
 * --nodes N         NodeManagers, 1 unless said
 * --kerberos DIR    a KDC, and servers that want its tickets; DIR gets krb5.conf and client.keytab (user sawlog)
 * </pre>
 */
public final class MiniYarn {
  private final File dir;
  private final ResourceManager rm = new ResourceManager();
  private final List<NodeManager> nodes = new ArrayList<>(); // null where one was stopped

  private MiniYarn(File dir) {
    this.dir = dir;
  }

  public static void main(String[] args) throws Exception {
    PrintStream out = System.out;
    System.setOut(System.err); // what libraries print is no answer
    File dir = null;
    int nodes = 1;
    File kerberos = null;
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--dir" -> dir = new File(args[++i]);
        case "--nodes" -> nodes = Integer.parseInt(args[++i]);
        case "--kerberos" -> kerberos = new File(args[++i]);
        default -> throw new IllegalArgumentException(args[i]);
      }
    }
    ExitUtil.disableSystemExit();
    DefaultMetricsSystem.setMiniClusterMode(true);
    Configuration conf = new YarnConfiguration(new JobConf(new HdfsConfiguration()));
    defaults(conf, dir);
    if (kerberos != null) {
      Kerberos.start(conf, kerberos);
      conf.set("yarn.nodemanager.admin-env", "HADOOP_CONF_DIR=" + new File(dir, "site").getPath());
    }
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf, new File(dir, "dfs")).numDataNodes(1).checkExitOnShutdown(false).build();
    hdfs.waitActive();
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:" + hdfs.getNameNodePort());
    if (kerberos != null) {
      for (String shared : List.of("/tmp", "/warehouse")) { // of users who are not the NameNode's
        hdfs.getFileSystem().mkdirs(new Path(shared));
        hdfs.getFileSystem().setPermission(new Path(shared), new FsPermission((short) 01777));
      }
    }
    MiniYarn mini = new MiniYarn(dir);
    mini.start(conf, nodes);
    out.println("READY 127.0.0.1:" + hdfs.getNameNodePort());
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

  /** Everything on loopback and on free ports, beats a fifth of the usual, JVMs that are small. */
  private static void defaults(Configuration conf, File dir) {
    conf.set("hadoop.tmp.dir", new File(dir, "tmp").getPath());
    conf.set("dfs.replication", "1");
    conf.set("dfs.namenode.handler.count", "4");
    conf.set("dfs.datanode.handler.count", "4");
    conf.set("dfs.client.use.datanode.hostname", "false");
    conf.set("yarn.is.minicluster", "true"); // containers get the class path of who submits
    for (String server : List.of("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")) {
      conf.set("yarn.resourcemanager." + server, "127.0.0.1:0");
    }
    for (String server : List.of("address", "localizer.address", "webapp.address")) {
      conf.set("yarn.nodemanager." + server, "127.0.0.1:0");
    }
    conf.set("yarn.resourcemanager.scheduler.class", "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler");
    conf.set("yarn.scheduler.minimum-allocation-mb", "128");
    conf.set("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", "200");
    conf.set("yarn.resourcemanager.am.max-attempts", "4");
    conf.set("yarn.nodemanager.resource.memory-mb", "16384");
    conf.set("yarn.nodemanager.disk-health-checker.enable", "false");
    conf.set("yarn.nodemanager.aux-services", "mapreduce_shuffle");
    conf.set("yarn.nodemanager.aux-services.mapreduce_shuffle.class", "org.apache.hadoop.mapred.ShuffleHandler");
    conf.set("mapreduce.shuffle.port", "0");
    conf.set("mapreduce.framework.name", "yarn");
    conf.set("mapreduce.am.max-attempts", "4");
    conf.set("mapreduce.client.submit.file.replication", "1");
    conf.set("mapreduce.task.progress-report.interval", "500");
    conf.set("yarn.app.mapreduce.am.staging-dir", "/tmp/hadoop-yarn/staging");
    conf.set("yarn.app.mapreduce.am.resource.mb", "768");
    conf.set("yarn.app.mapreduce.am.command-opts", "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:CompressedClassSpaceSize=64m");
    conf.set("yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms", "200");
  }

  private void start(Configuration conf, int count) throws Exception {
    rm.init(conf);
    rm.start();
    for (int i = 0; i < count; i++) {
      nodes.add(null);
      startNode(i);
    }
    File site = new File(dir, "site");
    if (!site.mkdirs()) {
      throw new IllegalStateException("cannot make " + site);
    }
    // Each of the files is read after the defaults of another, so all have all.
    for (String name : List.of("core-site.xml", "hdfs-site.xml", "mapred-site.xml", "yarn-site.xml")) {
      try (OutputStream file = new FileOutputStream(new File(site, name))) {
        rm.getConfig().writeXml(file);
      }
    }
  }

  private void startNode(int i) {
    Configuration conf = new YarnConfiguration(rm.getConfig());
    conf.set("yarn.nodemanager.local-dirs", new File(dir, "node" + i + "/local").getPath());
    conf.set("yarn.nodemanager.log-dirs", new File(dir, "node" + i + "/log").getPath());
    NodeManager node = new NodeManager();
    node.init(conf);
    node.start();
    nodes.set(i, node);
  }

  private String run(String[] w) {
    switch (w[0]) {
      case "rm" -> {
        return "http://" + rm.getConfig().get("yarn.resourcemanager.webapp.address").replace("127.0.0.1", "localhost"); // which has a principal
      }
      case "stop-node" -> { // by the port of its web address
        for (int i = 0; i < nodes.size(); i++) {
          NodeManager node = nodes.get(i);
          if (node != null && node.getNMContext().getHttpPort() == Integer.parseInt(w[1])) {
            node.stop();
            nodes.set(i, null);
            return "" + i;
          }
        }
        throw new IllegalArgumentException("no node has port " + w[1]);
      }
      case "start-nodes" -> {
        for (int i = 0; i < nodes.size(); i++) {
          if (nodes.get(i) == null) {
            startNode(i);
          }
        }
      }
      default -> throw new IllegalArgumentException("no such command: " + w[0]);
    }
    return String.join(" ", w);
  }
}
