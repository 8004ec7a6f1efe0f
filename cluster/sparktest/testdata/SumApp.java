import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.api.java.JavaSparkContext;

/** Sums the squares of 0 .. n-1 over n tasks and prints the sum: an application without Python. */
public final class SumApp {
  private SumApp() {}

  public static void main(String[] args) {
    int n = Integer.parseInt(args[0]);
    List<Integer> numbers = new ArrayList<>();
    for (int i = 0; i < n; i++) {
      numbers.add(i);
    }
    try (JavaSparkContext sc = new JavaSparkContext(new SparkConf())) {
      long sum = sc.parallelize(numbers, n).map(i -> (long) i * i).reduce(Long::sum);
      System.out.println("SUM=" + sum + " APP=" + sc.sc().applicationId());
    }
  }
}
