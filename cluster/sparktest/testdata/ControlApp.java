import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.resource.ExecutorResourceRequests;
import org.apache.spark.resource.ResourceInformation;
import org.apache.spark.resource.ResourceProfile;
import org.apache.spark.resource.ResourceProfileBuilder;
import org.apache.spark.resource.TaskResourceRequests;

/**
 * The JVM twin of app.py, as an application and as a cluster-mode driver: it does what the harness tells it over a TCP
 * connection, one JSON object per line. Arguments: host:port of the harness, path of the ledger.
 *
 * <p>Beyond app.py it knows "exit" (ends the JVM with a code, the context left as it is) and "throw" (ends main with an
 * exception), and "run" takes "profileMemory": a resource profile of one core and that much memory for the job.
 */
public final class ControlApp {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Socket control;
  private final String ledger;
  private final Map<String, ResourceProfile> profiles = new LinkedHashMap<>();
  private JavaSparkContext sc;

  private ControlApp(Socket control, String ledger) {
    this.control = control;
    this.ledger = ledger;
  }

  public static void main(String[] args) throws Exception {
    int colon = args[0].lastIndexOf(':');
    try (Socket socket = new Socket(args[0].substring(0, colon), Integer.parseInt(args[0].substring(colon + 1)))) {
      new ControlApp(socket, args[1]).serve();
    }
  }

  private void serve() throws IOException {
    BufferedReader lines = new BufferedReader(new InputStreamReader(control.getInputStream(), StandardCharsets.UTF_8));
    // A driver's working directory bears its id.
    say("event", "hello", "pid", ProcessHandle.current().pid(), "dir", new File("").getAbsoluteFile().getName(),
        "master", System.getProperty("spark.master", ""));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      JsonNode command = JSON.readTree(line);
      switch (command.get("cmd").asText()) {
        case "start":
          sc = new JavaSparkContext(new SparkConf().setJars(JavaSparkContext.jarOfClass(ControlApp.class)));
          say("event", "started", "app_id", sc.sc().applicationId(), "version", sc.version());
          break;
        case "run":
          run(command);
          break;
        case "exit":
          System.exit(command.get("code").asInt());
          break;
        case "throw":
          throw new IllegalStateException("told to fail");
        default: // finish
          if (sc != null) {
            sc.stop();
          }
          say("event", "finished");
          return;
      }
    }
  }

  private void run(JsonNode command) throws IOException {
    int first = command.get("first").asInt();
    int count = command.get("count").asInt();
    List<Integer> numbers = new ArrayList<>();
    for (int i = first; i < first + count; i++) {
      numbers.add(i);
    }
    JavaRDD<Integer> rdd = sc.parallelize(numbers, count);
    if (command.hasNonNull("profileMemory")) {
      rdd = rdd.map(i -> i).withResources(profiles.computeIfAbsent(command.get("profileMemory").asText(), ControlApp::profile));
    }
    try {
      long sum = 0;
      for (long square : rdd.map(new Task(ledger, (long) (1000 * command.get("seconds").asDouble()))).collect()) {
        sum += square;
      }
      say("event", "ran", "sum", sum, "count", count);
    } catch (RuntimeException e) { // SparkException reaches Java undeclared
      say("event", "failed", "message", String.valueOf(e.getMessage()));
    }
  }

  private static ResourceProfile profile(String memory) {
    return new ResourceProfileBuilder().require(new ExecutorResourceRequests().cores(1).memory(memory))
        .require(new TaskResourceRequests().cpus(1)).build();
  }

  private void say(Object... fields) throws IOException {
    control.getOutputStream().write(encode(fields));
  }

  private static byte[] encode(Object... fields) throws IOException {
    Map<String, Object> object = new LinkedHashMap<>();
    for (int i = 0; i < fields.length; i += 2) {
      object.put((String) fields[i], fields[i + 1]);
    }
    return (JSON.writeValueAsString(object) + "\n").getBytes(StandardCharsets.UTF_8);
  }

  /** One task: it notes its beginning and its end in the ledger, so that a repeated task shows whatever Spark reports. */
  private static final class Task implements Function<Integer, Long>, Serializable {
    private final String ledger;
    private final long millis;

    Task(String ledger, long millis) {
      this.ledger = ledger;
      this.millis = millis;
    }

    @Override
    public Long call(Integer number) throws Exception {
      note(number, "begin");
      Thread.sleep(millis);
      note(number, "end");
      return (long) number * number;
    }

    private void note(int number, String what) throws IOException {
      TaskContext context = TaskContext.get();
      ResourceInformation gpu = context.resourcesJMap().get("gpu");
      byte[] line = encode("task", number, "what", what, "executor", SparkEnv.get().executorId(), "attempt",
          context.attemptNumber(), "gpu", gpu == null ? List.of() : Arrays.asList(gpu.addresses()));
      Files.write(Paths.get(ledger), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
  }
}
