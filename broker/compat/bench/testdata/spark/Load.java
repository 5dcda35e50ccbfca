import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.from_json;

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * A batch from Kafka to Parquet as people write it with Spark, again and again in one JVM.
 *
 * <p>usage: Load HOST:PORT. Each line of standard input, "TOPIC CODEC FOLDER", is one load of the
 * whole topic, whose partition is read by two tasks; each line of standard output tells how many
 * rows the files have and what the load took, in seconds, the count not included.
 */
public final class Load {
  private static final StructType SCHEMA =
      StructType.fromDDL(
          "ts TIMESTAMP, id STRING, ip STRING, path STRING, status INT, bytes BIGINT,"
              + " referrer STRING, agent STRING");

  public static void main(String[] args) throws Exception {
    SparkSession spark =
        SparkSession.builder()
            .appName("load")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate();
    spark.sparkContext().setLogLevel("ERROR");
    OperatingSystemMXBean machine =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      String[] ask = line.split(" ", 3);
      System.gc();
      long cpu = machine.getProcessCpuTime();
      long from = System.nanoTime();
      load(spark, args[0], ask[0]).write().option("compression", ask[1]).parquet(ask[2]);
      double wall = (System.nanoTime() - from) / 1e9;
      double took = (machine.getProcessCpuTime() - cpu) / 1e9;
      long rows = spark.read().parquet(ask[2]).count();
      System.out.printf("{\"rows\":%d,\"cpu\":%.3f,\"wall\":%.3f}%n", rows, took, wall);
      System.out.flush();
    }
    spark.stop();
  }

  private static Dataset<Row> load(SparkSession spark, String brokers, String topic) {
    return spark
        .read()
        .format("kafka")
        .option("kafka.bootstrap.servers", brokers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .option("minPartitions", "2")
        .load()
        .select(
            col("partition").as("_partition"),
            col("offset").as("_offset"),
            from_json(col("value").cast("string"), SCHEMA).as("r"))
        .select("_partition", "_offset", "r.*");
  }
}
