import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the main methods of tools inside one JVM, since starting a JVM costs more than most tools do.
 *
 * <p>Standard input carries one request a line, {"id", "main", "args", "stdin"}; standard output one answer a line,
 * {"id", "code", "out", "err"}. Runs may overlap: what a run prints, reads and registers follows its threads.
 *
 * <p>A run asked for with "live" has an open standard input and reports each line as it comes, {"id", "line"}, until
 * {"id", "stop"} does to it what SIGTERM does to a process: its shutdown hooks run.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** One tool being run. */
    private static final class Run {
        final long id;
        final ByteArrayOutputStream out;
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        final InputStream in;
        final List<Runnable> hooks = new ArrayList<>();
        Integer code;
        volatile boolean ended; // what is printed after the tool's exit is the driver's doing, not the tool's

        Run(JsonNode request, Answers answers) {
            id = request.path("id").asLong();
            boolean live = request.path("live").asBoolean();
            in = live ? new OpenInput() : new ByteArrayInputStream(request.path("stdin").asText("").getBytes(StandardCharsets.UTF_8));
            out = live ? new LiveOutput(id, answers) : new ByteArrayOutputStream();
        }

        void runHooks() {
            List<Runnable> taken;
            synchronized (this) {
                taken = new ArrayList<>(hooks);
                hooks.clear();
            }
            for (Runnable hook : taken) {
                try {
                    hook.run();
                } catch (Throwable e) {
                    e.printStackTrace();
                }
            }
        }
    }

    /** The way back to the asker. */
    private static final class Answers {
        private final PrintStream stream;

        Answers(PrintStream stream) {
            this.stream = stream;
        }

        synchronized void send(ObjectNode answer) {
            stream.println(answer);
            stream.flush();
        }
    }

    /** Keeps what is printed and reports each line. */
    private static final class LiveOutput extends ByteArrayOutputStream {
        private final long id;
        private final Answers answers;
        private int reported;

        LiveOutput(long id, Answers answers) {
            this.id = id;
            this.answers = answers;
        }

        @Override
        public synchronized void write(int b) {
            super.write(b);
            report();
        }

        @Override
        public synchronized void write(byte[] b, int off, int len) {
            super.write(b, off, len);
            report();
        }

        private void report() {
            for (int i = reported; i < count; i++) {
                if (buf[i] == '\n') {
                    ObjectNode event = JSON.createObjectNode();
                    event.put("id", id);
                    event.put("line", new String(buf, reported, i - reported, StandardCharsets.UTF_8));
                    answers.send(event);
                    reported = i + 1;
                }
            }
        }
    }

    /** Standard input without data, which ends when the run is stopped. */
    private static final class OpenInput extends InputStream {
        private boolean closed;

        @Override
        public synchronized int read() throws java.io.IOException {
            while (!closed) {
                try {
                    wait();
                } catch (InterruptedException e) {
                    throw new java.io.InterruptedIOException();
                }
            }
            return -1;
        }

        @Override
        public synchronized void close() {
            closed = true;
            notifyAll();
        }
    }

    /** The run a thread belongs to; threads inherit it from the one that made them. */
    private static final InheritableThreadLocal<Run> CURRENT = new InheritableThreadLocal<>();

    /** Thrown where a tool would have ended the process. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1L;

        Exited(int code) {
            super("exit " + code, null, false, false);
        }
    }

    private static final class RunOutput extends OutputStream {
        private final boolean error;
        private final OutputStream outside;

        RunOutput(boolean error, OutputStream outside) {
            this.error = error;
            this.outside = outside;
        }

        private OutputStream target() {
            Run run = CURRENT.get();
            if (run == null) {
                return outside;
            }
            if (run.ended) {
                return nullOutputStream();
            }
            return error ? run.err : run.out;
        }

        @Override
        public void write(int b) throws java.io.IOException {
            target().write(b);
        }

        @Override
        public void write(byte[] b, int off, int len) throws java.io.IOException {
            target().write(b, off, len);
        }
    }

    private static final class RunInput extends InputStream {
        private InputStream source() {
            Run run = CURRENT.get();
            return run == null ? InputStream.nullInputStream() : run.in;
        }

        @Override
        public int read() throws java.io.IOException {
            return source().read();
        }

        @Override
        public int read(byte[] b, int off, int len) throws java.io.IOException {
            return source().read(b, off, len);
        }

        @Override
        public int available() throws java.io.IOException {
            return source().available();
        }
    }

    public static void main(String[] args) throws Exception {
        InputStream requests = System.in;
        Answers answers = new Answers(System.out);
        System.setIn(new RunInput());
        System.setErr(new PrintStream(new RunOutput(true, System.err), true, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(new RunOutput(false, System.err), true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Driver::exit);
        Exit.setHaltProcedure(Driver::exit);
        Exit.setShutdownHookAdder((name, hook) -> {
            Run run = CURRENT.get();
            if (run != null) {
                synchronized (run) {
                    run.hooks.add(hook);
                }
            }
        });

        Map<Long, Run> running = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            if (request.path("stop").asBoolean()) {
                Run run = running.get(request.path("id").asLong());
                if (run != null) {
                    start("stop", run, () -> stop(run));
                }
                continue;
            }
            Run run = new Run(request, answers);
            running.put(run.id, run);
            start(request.path("main").asText(), run, () -> {
                serve(request, run, answers);
                running.remove(run.id);
            });
        }
        System.exit(0);
    }

    private static void start(String name, Run run, Runnable work) {
        Thread thread = new Thread(() -> {
            CURRENT.set(run);
            work.run();
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    private static void stop(Run run) {
        try {
            run.in.close();
        } catch (java.io.IOException e) {
            e.printStackTrace();
        }
        run.runHooks();
    }

    private static void exit(int code, String unused) {
        Run run = CURRENT.get();
        if (run != null) {
            synchronized (run) {
                if (run.code == null) {
                    run.code = code;
                    System.out.flush();
                    System.err.flush();
                    run.ended = true;
                }
            }
        }
        throw new Exited(code);
    }

    private static void serve(JsonNode request, Run run, Answers answers) {
        int code = call(request, run);
        run.ended = false;
        run.runHooks();
        System.out.flush();
        System.err.flush();
        ObjectNode answer = JSON.createObjectNode();
        answer.put("id", run.id);
        answer.put("code", code);
        answer.put("out", run.out.toString(StandardCharsets.UTF_8));
        answer.put("err", run.err.toString(StandardCharsets.UTF_8));
        answers.send(answer);
    }

    private static int call(JsonNode request, Run run) {
        List<String> args = new ArrayList<>();
        request.path("args").forEach(a -> args.add(a.asText()));
        int code = 0;
        try {
            Class.forName(request.path("main").asText())
                .getMethod("main", String[].class)
                .invoke(null, (Object) args.toArray(new String[0]));
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Exited)) {
                e.getCause().printStackTrace();
                code = 1;
            }
        } catch (Throwable e) {
            e.printStackTrace();
            code = 1;
        }
        synchronized (run) {
            return run.code == null ? code : run.code;
        }
    }
}
