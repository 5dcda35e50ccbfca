import java.lang.reflect.Modifier;
import java.util.TreeSet;
import java.util.jar.JarFile;

/** Prints the classes of the jar of kafka-tools that have a main method, without their packages. */
public final class Mains {
    private Mains() {
    }

    public static void main(String[] args) throws Exception {
        Class<?> known = Class.forName("org.apache.kafka.tools.TopicCommand");
        TreeSet<String> names = new TreeSet<>();
        try (JarFile jar = new JarFile(known.getProtectionDomain().getCodeSource().getLocation().getPath())) {
            for (var entries = jar.entries(); entries.hasMoreElements();) {
                String name = entries.nextElement().getName();
                if (!name.startsWith("org/apache/kafka/tools/") || !name.endsWith(".class") || name.contains("$")) {
                    continue;
                }
                Class<?> c = Class.forName(name.replace('/', '.').substring(0, name.length() - 6), false, known.getClassLoader());
                try {
                    if (Modifier.isStatic(c.getMethod("main", String[].class).getModifiers())) {
                        names.add(c.getSimpleName());
                    }
                } catch (NoSuchMethodException e) {
                    // not to be started
                }
            }
        }
        names.forEach(System.out::println);
    }
}
