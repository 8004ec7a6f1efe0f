import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.ObjectStreamConstants;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Prints the serialization descriptors of a list of classes as JSON, one class a line.
 *
 * <p>Usage: {@code java Catalogue CLASSES.txt JAR_DIR}. Exit status 0: complete; 1: a class could
 * not be described because something it refers to is missing; 2: wrong arguments.
 *
 * <p>A descriptor is not computed here: the JVM is made to write it and the bytes are read back.
 * So the flags, the field order and the serialVersionUID are by construction those that the same
 * JVM puts on the wire, without a look into non-public parts of java.io.
 */
public final class Catalogue {
  private static final String PLAIN_NAME = "[\\x21-\\x7e&&[^\"\\\\]]+";

  /** Class name to the JSON text of its descriptor; the order of the map is the order printed. */
  private final TreeMap<String, String> entries = new TreeMap<>();

  private final ClassLoader loader;

  private Catalogue(ClassLoader loader) {
    this.loader = loader;
  }

  public static void main(String[] args) throws IOException {
    if (args.length != 2) {
      System.err.println("usage: java Catalogue CLASSES.txt JAR_DIR");
      System.exit(2);
    }
    // The platform loader as parent: the tool's own class path must not stand in for a jar.
    try (URLClassLoader loader =
        new URLClassLoader(jars(Path.of(args[1])), ClassLoader.getPlatformClassLoader())) {
      Catalogue catalogue = new Catalogue(loader);
      boolean complete = true;
      for (String name : names(Path.of(args[0]))) {
        complete &= catalogue.add(name);
      }
      if (!complete) {
        System.exit(1);
      }
      catalogue.print();
    }
  }

  private static URL[] jars(Path dir) throws IOException {
    List<Path> paths = new ArrayList<>();
    try (DirectoryStream<Path> found = Files.newDirectoryStream(dir, "*.jar")) {
      found.forEach(paths::add);
    }
    Collections.sort(paths); // the directory's own order must not decide between two jars
    URL[] urls = new URL[paths.size()];
    for (int i = 0; i < urls.length; i++) {
      urls[i] = paths.get(i).toUri().toURL();
    }
    return urls;
  }

  private static List<String> names(Path list) throws IOException {
    List<String> names = new ArrayList<>();
    for (String line : Files.readAllLines(list, StandardCharsets.US_ASCII)) {
      if (!line.isBlank() && !line.startsWith("#")) {
        names.add(line.strip());
      }
    }
    return names;
  }

  /** Adds a class and its superclasses. False, with a line on stderr, if a jar is missing. */
  private boolean add(String name) throws IOException {
    requirePlain(name);
    try {
      ObjectStreamClass descriptor =
          ObjectStreamClass.lookup(Class.forName(name, false, loader));
      if (descriptor == null) {
        entries.put(name, "null"); // the class exists but is not serializable
      } else {
        addWritten(descriptor);
      }
    } catch (ClassNotFoundException e) {
      entries.put(name, "{\"err\":\"" + e + "\"}");
    } catch (LinkageError e) {
      // The class is there, something in its signatures is not: its serialVersionUID cannot be
      // computed. That is an incomplete class path, never a property of the release.
      System.err.println(name + ": cannot be described: " + e);
      return false;
    }
    return true;
  }

  /** Lets the JVM write the descriptor and reads it, with all its superclasses, back. */
  private void addWritten(ObjectStreamClass descriptor) throws IOException {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(descriptor);
    }
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes.toByteArray()));
    expect(in.readShort() == ObjectStreamConstants.STREAM_MAGIC, "magic");
    expect(in.readShort() == ObjectStreamConstants.STREAM_VERSION, "version");
    readDescriptor(in, new ArrayList<>());
    expect(in.read() < 0, "end of stream");
  }

  /**
   * Reads one class descriptor and enters it. Returns the class name, or null for TC_NULL.
   *
   * @param handles the objects read so far, in handle order; a descriptor takes its place as null
   */
  private String readDescriptor(DataInputStream in, List<String> handles) throws IOException {
    int tag = in.readUnsignedByte();
    if (tag == ObjectStreamConstants.TC_NULL) {
      return null;
    }
    expect(tag == ObjectStreamConstants.TC_CLASSDESC, "TC_CLASSDESC");
    String name = in.readUTF();
    long suid = in.readLong();
    handles.add(null);
    int flags = in.readUnsignedByte();
    int count = in.readUnsignedShort();
    List<String> fields = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      fields.add(readField(in, handles));
    }
    expect(in.readUnsignedByte() == ObjectStreamConstants.TC_ENDBLOCKDATA, "TC_ENDBLOCKDATA");
    String parent = readDescriptor(in, handles);
    requirePlain(name);
    entries.put(
        name,
        "{\"suid\":\"" + Long.toHexString(suid) + "\",\"flags\":" + flags
            + ",\"fields\":[" + String.join(",", fields) + "]"
            + (parent == null ? "" : ",\"super\":\"" + parent + "\"") + "}");
    return name;
  }

  private static String readField(DataInputStream in, List<String> handles) throws IOException {
    char code = (char) in.readUnsignedByte();
    String name = in.readUTF();
    String type = String.valueOf(code);
    if (code == 'L' || code == '[') {
      type = readString(in, handles);
    }
    requirePlain(name);
    requirePlain(type);
    return "[\"" + type + "\",\"" + name + "\"]";
  }

  private static String readString(DataInputStream in, List<String> handles) throws IOException {
    int tag = in.readUnsignedByte();
    if (tag == ObjectStreamConstants.TC_REFERENCE) {
      String earlier = handles.get(in.readInt() - ObjectStreamConstants.baseWireHandle);
      expect(earlier != null, "reference to a string");
      return earlier;
    }
    expect(tag == ObjectStreamConstants.TC_STRING, "TC_STRING");
    String value = in.readUTF();
    handles.add(value);
    return value;
  }

  /** Names go into the JSON text unescaped, so anything that would need escaping is refused. */
  private static void requirePlain(String name) throws IOException {
    expect(name.matches(PLAIN_NAME), "a plain ASCII name instead of " + name);
  }

  private static void expect(boolean condition, String what) throws IOException {
    if (!condition) {
      throw new IOException("expected " + what);
    }
  }

  private void print() throws IOException {
    StringBuilder text = new StringBuilder("{\n");
    String separator = "";
    for (Map.Entry<String, String> entry : entries.entrySet()) {
      text.append(separator).append('"').append(entry.getKey()).append("\":").append(entry.getValue());
      separator = ",\n";
    }
    text.append("\n}\n");
    byte[] bytes = text.toString().getBytes(StandardCharsets.US_ASCII);
    System.out.write(bytes, 0, bytes.length);
    if (System.out.checkError()) { // flushes; PrintStream keeps errors to itself otherwise
      throw new IOException("cannot write the catalogue");
    }
  }
}
