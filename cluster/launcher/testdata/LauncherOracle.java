import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.SecurityManager;
import org.apache.spark.SparkConf;
import org.apache.spark.deploy.Command;
import org.apache.spark.deploy.worker.CommandUtils;
import org.apache.spark.deploy.worker.ExecutorRunner;
import org.apache.spark.deploy.worker.Worker;
import org.apache.spark.util.Utils;
import scala.Function1;
import scala.collection.JavaConverters;

/**
 * Asks the command builder of a real Spark what it makes of commands: LauncherOracle SPARK_HOME CASES ANSWERS. CASES has
 * one JSON object per line (see package launchertest), ANSWERS gets one for each. The environment and the working
 * directory are this process's own. With "environment" for SPARK_HOME it writes its environment first.
 */
public final class LauncherOracle {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] args) throws Exception {
    try (BufferedReader in = Files.newBufferedReader(Paths.get(args[1]), StandardCharsets.UTF_8);
        BufferedWriter out = Files.newBufferedWriter(Paths.get(args[2]), StandardCharsets.UTF_8)) {
      if (args[0].equals("environment")) {
        out.write(JSON.writeValueAsString(Map.of("env", System.getenv())));
      }
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        JsonNode question = JSON.readTree(line);
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
          if (question.has("split")) {
            answer.put("argv", split(question.get("split").asText()));
          } else {
            build(args[0], question, answer);
          }
        } catch (Exception e) {
          Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
          answer.put("error", cause.toString());
        }
        out.write(JSON.writeValueAsString(answer));
        out.newLine();
      }
    }
    System.exit(0); // whatever else Spark has started
  }

  @SuppressWarnings("unchecked")
  private static List<String> split(String line) throws Exception {
    Method m = Class.forName("org.apache.spark.launcher.CommandBuilderUtils").getDeclaredMethod("parseOptionString", String.class);
    m.setAccessible(true);
    return (List<String>) m.invoke(null, line);
  }

  private static void build(String home, JsonNode q, Map<String, Object> answer) throws Exception {
    SparkConf conf = new SparkConf(false);
    q.path("properties").fields().forEachRemaining(e -> conf.set(e.getKey(), e.getValue().asText()));
    boolean executor = q.get("kind").asText().equals("executor");
    String workerUrl = "spark://Worker@" + q.get("host").asText() + ":" + q.get("port").asInt();
    String resources = q.path("resourcesFile").asText("");
    Command sent = Worker.maybeUpdateSSLSettings(command(q.get("command")), conf);
    List<String> options = new ArrayList<>(JavaConverters.seqAsJavaList(sent.javaOpts()));
    List<String> arguments = new ArrayList<>(JavaConverters.seqAsJavaList(sent.arguments()));
    Function1<String, String> substitute;
    if (executor) {
      String app = q.get("appId").asText();
      String id = Integer.toString(q.get("executorId").asInt());
      options.replaceAll(o -> Utils.substituteAppNExecIds(o, app, id));
      if (!resources.isEmpty()) {
        arguments.add("--resourcesFile");
        arguments.add(resources);
      }
      ExecutorRunner runner = runner(q, workerUrl, conf);
      substitute = runner::substituteVariables;
    } else {
      if (!resources.isEmpty()) {
        options.add("-Dspark.driver.resourcesFile=" + resources);
      }
      String jar = q.get("userJar").asText();
      substitute = a -> a.equals("{{WORKER_URL}}") ? workerUrl : a.equals("{{USER_JAR}}") ? jar : a; // DriverRunner.scala
    }
    Command ready = new Command(sent.mainClass(), list(arguments), sent.environment(), sent.classPathEntries(),
        sent.libraryPathEntries(), list(options));
    SecurityManager security = new SecurityManager(conf, SecurityManager.$lessinit$greater$default$2(),
        SecurityManager.$lessinit$greater$default$3());
    ProcessBuilder builder = CommandUtils.buildProcessBuilder(ready, security, q.get("memoryMB").asInt(),
        new File(home).getAbsolutePath(), substitute, CommandUtils.buildProcessBuilder$default$6(),
        CommandUtils.buildProcessBuilder$default$7());
    answer.put("argv", builder.command());
    answer.put("env", new LinkedHashMap<>(builder.environment()));
    List<String> shown = JavaConverters.seqAsJavaList(Utils.redactCommandLineArgs(conf, list(builder.command())));
    answer.put("header", (executor ? "Spark Executor Command: " : "Launch Command: ") + "\"" + String.join("\" \"", shown)
        + "\"\n" + "=".repeat(40) + "\n\n");
  }

  /** The constructor's parameters by position; what substituteVariables does not read is null or 0. */
  private static ExecutorRunner runner(JsonNode q, String workerUrl, SparkConf conf) throws Exception {
    Constructor<?> c = ExecutorRunner.class.getConstructors()[0];
    Object[] values = new Object[c.getParameterCount()];
    for (int i = 0; i < values.length; i++) {
      values[i] = c.getParameterTypes()[i] == int.class ? (Object) 0 : null;
    }
    values[0] = q.get("appId").asText();
    values[1] = q.get("executorId").asInt();
    values[3] = q.get("cores").asInt();
    values[4] = q.get("memoryMB").asInt();
    values[8] = q.get("host").asText();
    values[13] = workerUrl;
    values[14] = conf;
    if (c.getParameterTypes()[17] == int.class) { // since 3.4
      values[17] = q.get("profile").asInt();
    }
    return (ExecutorRunner) c.newInstance(values);
  }

  private static Command command(JsonNode c) {
    Map<String, String> environment = new LinkedHashMap<>();
    c.path("environment").fields().forEachRemaining(e -> environment.put(e.getKey(), e.getValue().asText()));
    return new Command(c.get("mainClass").asText(), list(strings(c, "arguments")),
        JavaConverters.mapAsScalaMap(environment), list(strings(c, "classPath")), list(strings(c, "libraryPath")),
        list(strings(c, "javaOpts")));
  }

  private static List<String> strings(JsonNode c, String field) {
    List<String> out = new ArrayList<>();
    c.path(field).forEach(e -> out.add(e.asText()));
    return out;
  }

  private static scala.collection.immutable.List<String> list(List<String> l) {
    return JavaConverters.asScalaBuffer(l).toList();
  }
}
