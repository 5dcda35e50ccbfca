import static org.apache.parquet.filter2.predicate.FilterApi.*;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HexFormat;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.conf.PlainParquetConfiguration;
import org.apache.parquet.example.data.Group;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.filter2.compat.FilterCompat;
import org.apache.parquet.filter2.predicate.FilterPredicate;
import org.apache.parquet.filter2.predicate.Operators;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.io.ColumnIOFactory;
import org.apache.parquet.io.LocalInputFile;
import org.apache.parquet.io.MessageColumnIO;
import org.apache.parquet.io.RecordReader;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.*;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType;
import org.apache.parquet.schema.Type;

/**
 * Reads a file with parquet-java.
 *
 * <pre>
 * rows FILE…             of each file a line with the schema as a JSON string, a line for each row,
 *                        an array of the columns' values in the form readers_test.go describes,
 *                        and "end"
 * counts FILE PREDICATES a line for each line "column op literal" (tabs between): how many rows
 *                        match with every filter that skips parts of the file, and without any
 * </pre>
 */
public class Parquet {
  public static void main(String[] args) throws IOException {
    try (PrintWriter out =
        new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)))) {
      if (args[0].equals("rows")) {
        for (int i = 1; i < args.length; i++) {
          rows(Path.of(args[i]), out);
          out.println("end");
        }
        return;
      }
      Path file = Path.of(args[1]);
      for (String line : Files.readAllLines(Path.of(args[2]))) {
        String[] p = line.split("\t", -1);
        out.println(count(file, p, true) + " " + count(file, p, false));
      }
    }
  }

  private static ParquetReadOptions.Builder options() {
    return ParquetReadOptions.builder(new PlainParquetConfiguration());
  }

  private static void rows(Path file, PrintWriter out) throws IOException {
    try (ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(file), options().build())) {
      MessageType schema = reader.getFileMetaData().getSchema();
      out.println(quoted(schema.toString()));
      MessageColumnIO io = new ColumnIOFactory().getColumnIO(schema);
      for (PageReadStore pages = reader.readNextRowGroup(); pages != null; pages = reader.readNextRowGroup()) {
        RecordReader<Group> records = io.getRecordReader(pages, new GroupRecordConverter(schema));
        for (long i = 0; i < pages.getRowCount(); i++) {
          StringBuilder line = new StringBuilder("[");
          Group row = records.read();
          for (int c = 0; c < schema.getFieldCount(); c++) {
            line.append(c > 0 ? "," : "");
            field(line, row, c);
          }
          out.println(line.append("]"));
        }
      }
    }
  }

  private static long count(Path file, String[] predicate, boolean skipping) throws IOException {
    MessageType schema;
    try (ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(file), options().build())) {
      schema = reader.getFileMetaData().getSchema();
    }
    FilterCompat.Filter filter = FilterCompat.get(predicate(schema, predicate));
    ParquetReadOptions o =
        options()
            .useStatsFilter(skipping)
            .useDictionaryFilter(skipping)
            .useColumnIndexFilter(skipping)
            .useBloomFilter(skipping)
            .useRecordFilter(true)
            .withRecordFilter(filter)
            .build();
    long matched = 0;
    try (ParquetFileReader reader = ParquetFileReader.open(new LocalInputFile(file), o)) {
      MessageColumnIO io = new ColumnIOFactory().getColumnIO(schema);
      for (PageReadStore pages = reader.readNextFilteredRowGroup();
          pages != null;
          pages = reader.readNextFilteredRowGroup()) {
        RecordReader<Group> records = io.getRecordReader(pages, new GroupRecordConverter(schema), filter);
        for (long i = 0; i < pages.getRowCount(); i++) {
          records.read();
          matched += records.shouldSkipCurrentRecord() ? 0 : 1;
        }
      }
    }
    return matched;
  }

  private static FilterPredicate predicate(MessageType schema, String[] p) {
    PrimitiveType t = schema.getType(p[0]).asPrimitiveType();
    boolean isNull = p[2].equals("null");
    switch (t.getPrimitiveTypeName()) {
      case INT32:
        return compared(intColumn(p[0]), p[1], isNull ? null : Integer.valueOf(p[2]));
      case INT64:
        return compared(longColumn(p[0]), p[1], isNull ? null : Long.valueOf(p[2]));
      case FLOAT:
        return compared(floatColumn(p[0]), p[1], isNull ? null : Float.valueOf(p[2]));
      case DOUBLE:
        return compared(doubleColumn(p[0]), p[1], isNull ? null : Double.valueOf(p[2]));
      case BOOLEAN:
        Boolean value = isNull ? null : Boolean.valueOf(p[2]);
        return p[1].equals("=") ? eq(booleanColumn(p[0]), value) : notEq(booleanColumn(p[0]), value);
      default:
        return compared(
            binaryColumn(p[0]), p[1], isNull ? null : Binary.fromConstantByteArray(HexFormat.of().parseHex(p[2])));
    }
  }

  private static <T extends Comparable<T>, C extends Operators.Column<T> & Operators.SupportsLtGt & Operators.SupportsEqNotEq>
      FilterPredicate compared(C column, String op, T value) {
    switch (op) {
      case "=":
        return eq(column, value);
      case "<>":
        return notEq(column, value);
      case "<":
        return lt(column, value);
      case "<=":
        return ltEq(column, value);
      case ">":
        return gt(column, value);
      case ">=":
        return gtEq(column, value);
      default:
        throw new IllegalArgumentException(op);
    }
  }

  /** The value of a field that may be absent. */
  private static void field(StringBuilder out, Group group, int field) {
    if (group.getFieldRepetitionCount(field) == 0) {
      out.append("null");
      return;
    }
    Type type = group.getType().getType(field);
    if (type.isPrimitive()) {
      primitive(out, group, field, type.asPrimitiveType());
      return;
    }
    Group value = group.getGroup(field, 0);
    LogicalTypeAnnotation logical = type.getLogicalTypeAnnotation();
    if (logical instanceof ListLogicalTypeAnnotation) {
      entries(out, value, 1);
    } else if (logical instanceof MapLogicalTypeAnnotation) {
      entries(out, value, 2);
    } else {
      struct(out, value);
    }
  }

  private static void struct(StringBuilder out, Group value) {
    GroupType type = value.getType();
    out.append("{");
    for (int i = 0; i < type.getFieldCount(); i++) {
      out.append(i > 0 ? "," : "").append(quoted(type.getFieldName(i))).append(":");
      field(out, value, i);
    }
    out.append("}");
  }

  /** The elements of a list, or the entries of a map as pairs. */
  private static void entries(StringBuilder out, Group value, int width) {
    out.append("[");
    for (int i = 0; i < value.getFieldRepetitionCount(0); i++) {
      Group entry = value.getGroup(0, i);
      out.append(i > 0 ? "," : "").append(width == 2 ? "[" : "");
      for (int k = 0; k < width; k++) {
        out.append(k > 0 ? "," : "");
        field(out, entry, k);
      }
      out.append(width == 2 ? "]" : "");
    }
    out.append("]");
  }

  private static void primitive(StringBuilder out, Group group, int field, PrimitiveType type) {
    LogicalTypeAnnotation logical = type.getLogicalTypeAnnotation();
    switch (type.getPrimitiveTypeName()) {
      case BOOLEAN:
        out.append(group.getBoolean(field, 0));
        return;
      case INT32:
        integer(out, group.getInteger(field, 0), logical);
        return;
      case INT64:
        integer(out, group.getLong(field, 0), logical);
        return;
      case FLOAT:
        out.append('"').append(group.getFloat(field, 0)).append('"');
        return;
      case DOUBLE:
        out.append('"').append(group.getDouble(field, 0)).append('"');
        return;
      default:
        byte[] bytes = group.getBinary(field, 0).getBytes();
        if (logical instanceof DecimalLogicalTypeAnnotation) {
          out.append('"').append(new BigInteger(bytes)).append('"');
        } else if (logical instanceof UUIDLogicalTypeAnnotation) {
          out.append('"').append(HexFormat.of().formatHex(bytes)).append('"');
        } else if (logical instanceof StringLogicalTypeAnnotation || logical instanceof JsonLogicalTypeAnnotation) {
          out.append(quoted(new String(bytes, StandardCharsets.UTF_8)));
        } else {
          out.append('"').append(Base64.getEncoder().encodeToString(bytes)).append('"');
        }
    }
  }

  private static void integer(StringBuilder out, long v, LogicalTypeAnnotation logical) {
    if (logical instanceof DecimalLogicalTypeAnnotation) {
      out.append('"').append(v).append('"');
    } else if (logical instanceof TimestampLogicalTypeAnnotation) {
      String unit = ((TimestampLogicalTypeAnnotation) logical).getUnit().name();
      long nanos = unit.equals("MILLIS") ? 1_000_000 : unit.equals("MICROS") ? 1_000 : 1;
      out.append('"').append(BigInteger.valueOf(v).multiply(BigInteger.valueOf(nanos))).append('"');
    } else {
      out.append(v);
    }
  }

  private static String quoted(String s) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c < ' ' || c == '"' || c == '\\' || c > '~') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }
}
