import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.minikdc.MiniKdc;
import org.apache.hadoop.security.UserGroupInformation;

/** A KDC, and a configuration whose servers and web servers ask for its tickets. */
final class Kerberos {
  private Kerberos() {}

  static void start(Configuration conf, File dir) throws Exception {
    Files.createDirectories(dir.toPath());
    MiniKdc kdc = new MiniKdc(MiniKdc.createConf(), dir);
    kdc.start();
    File krb5 = new File(dir, "client-krb5.conf");
    Files.copy(kdc.getKrb5conf().toPath(), krb5.toPath(), StandardCopyOption.REPLACE_EXISTING);
    File keytab = new File(dir, "hdfs.keytab");
    kdc.createPrincipal(keytab, "hdfs/localhost", "HTTP/localhost");
    kdc.createPrincipal(new File(dir, "client.keytab"), "sawlog");
    String principal = "hdfs/localhost@" + kdc.getRealm();
    String web = "HTTP/localhost@" + kdc.getRealm();
    conf.set("hadoop.security.authentication", "kerberos");
    for (String role : List.of("dfs.namenode.", "dfs.datanode.")) {
      conf.set(role + "kerberos.principal", principal);
      conf.set(role + "keytab.file", keytab.getPath());
      conf.set(role + "kerberos.internal.spnego.principal", web);
    }
    for (String role : List.of("yarn.resourcemanager.", "yarn.nodemanager.")) {
      conf.set(role + "principal", principal);
      conf.set(role + "keytab", keytab.getPath());
      conf.set(role + "webapp.spnego-principal", web);
      conf.set(role + "webapp.spnego-keytab-file", keytab.getPath());
    }
    conf.set("dfs.web.authentication.kerberos.principal", web);
    conf.set("dfs.web.authentication.kerberos.keytab", keytab.getPath());
    conf.set("dfs.block.access.token.enable", "true");
    conf.set("dfs.data.transfer.protection", "authentication");
    conf.set("ignore.secure.ports.for.testing", "true");
    conf.set("dfs.http.policy", "HTTP_ONLY");
    conf.set("hadoop.http.filter.initializers", "org.apache.hadoop.security.AuthenticationFilterInitializer");
    conf.set("hadoop.http.authentication.type", "kerberos");
    conf.set("hadoop.http.authentication.kerberos.principal", web);
    conf.set("hadoop.http.authentication.kerberos.keytab", keytab.getPath());
    File secret = new File(dir, "cookie-secret");
    Files.writeString(secret.toPath(), "not one for longer than a test");
    conf.set("hadoop.http.authentication.signature.secret.file", secret.getPath());
    conf.set("mapreduce.jobhistory.address", ""); // there is none to give tokens
    conf.set("hadoop.kerberos.min.seconds.before.relogin", "1"); // tickets of tests are short
    String where = "-Djava.security.krb5.conf=" + krb5.getPath();
    conf.set("mapreduce.admin.map.child.java.opts", where);
    conf.set("yarn.app.mapreduce.am.admin-command-opts", where);
    everywhere(conf, new File(dir, "kerberos-site.xml"));
    UserGroupInformation.setConfiguration(conf);
    UserGroupInformation.loginUserFromKeytab(principal, keytab.getPath());
  }

  /** What a NodeManager that fetches files for a container makes its own configuration of. */
  private static void everywhere(Configuration conf, File site) throws Exception {
    Configuration part = new Configuration(false);
    for (String key : List.of("hadoop.security.authentication", "dfs.namenode.kerberos.principal", "dfs.data.transfer.protection")) {
      part.set(key, conf.get(key));
    }
    try (OutputStream file = new FileOutputStream(site)) {
      part.writeXml(file);
    }
    URL[] where = {site.getParentFile().toURI().toURL()};
    Thread.currentThread().setContextClassLoader(new URLClassLoader(where, Kerberos.class.getClassLoader()));
    Configuration.addDefaultResource(site.getName());
  }
}
