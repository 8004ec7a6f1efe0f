package submit

// Job is a driver to run in cluster mode. A zero field means what spark-submit does without it.
type Job struct {
	// Resource is the URL of a jar, or of a .py file, which is run by SparkSubmit on its worker. It must be readable
	// from there.
	Resource  string
	MainClass string
	Args      []string
	// Name is spark.app.name; the main class.
	Name string
	// Cores and MemoryMB are what the driver takes of its worker; 1 and 1024, or those of Conf.
	Cores, MemoryMB int
	// Supervise: start it again when it fails.
	Supervise bool
	// Conf has properties that begin with "spark.".
	Conf map[string]string
	// Environment is that of the driver's process; see SparkEnvironment.
	Environment map[string]string
	// ClassPath, LibraryPath and JavaOptions come before those of Conf.
	ClassPath, LibraryPath, JavaOptions []string
}
