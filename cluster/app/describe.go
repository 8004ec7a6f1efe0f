package app

import (
	"strconv"

	"raftmaster/transport/sparkmsg"
)

const (
	schedulerEndpoint = "CoarseGrainedScheduler" // CoarseGrainedSchedulerBackend.ENDPOINT_NAME
	clientEndpoint    = "AppClient"
	executorEndpoint  = "Executor"
	masterEndpoint    = "Master"

	hostProperty = "spark.driver.host"
	portProperty = "spark.driver.port"

	// runAttribute is how executors show that they belong to this very App: their worker gives them its environment, and
	// they hand over variables with this prefix when they register (CoarseGrainedExecutorBackend.extractAttributes).
	attributePrefix = "SPARK_EXECUTOR_ATTRIBUTE_"
	runAttribute    = "RAFTMASTER_RUN"
)

// javaOptions let executors start on Java 17 (JavaModuleOptions): without them 3.5 dies before it registers. The first
// lets older Javas pass over the second. Tasks would need more.
var javaOptions = []string{"-XX:+IgnoreUnrecognizedVMOptions", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED"}

// describe builds what StandaloneSchedulerBackend.start builds.
func (a *App) describe() *sparkmsg.ApplicationDescription {
	c := &a.cfg
	profile := sparkmsg.ResourceProfile{
		ExecutorResources: []sparkmsg.ExecutorResourceRequest{{ResourceName: "memory", Amount: int64(c.MemoryMB)}},
		TaskResources:     []sparkmsg.TaskResourceRequest{{ResourceName: "cpus", Amount: 1}},
	}
	if c.CoresPerExecutor > 0 {
		profile.ExecutorResources = append(profile.ExecutorResources,
			sparkmsg.ExecutorResourceRequest{ResourceName: "cores", Amount: int64(c.CoresPerExecutor)})
	}
	d := &sparkmsg.ApplicationDescription{
		Name: c.Name, User: c.User, AppUIURL: c.UIURL, InitialExecutorLimit: c.InitialExecutors, DefaultProfile: profile,
		Command: sparkmsg.Command{
			MainClass: "org.apache.spark.executor.CoarseGrainedExecutorBackend",
			Arguments: []string{"--driver-url", a.DriverURL(), "--executor-id", "{{EXECUTOR_ID}}", "--hostname", "{{HOSTNAME}}",
				"--cores", "{{CORES}}", "--app-id", "{{APP_ID}}", "--worker-url", "{{WORKER_URL}}",
				"--resourceProfileId", "{{RESOURCE_PROFILE_ID}}"},
			Environment: append([]sparkmsg.EnvVar{{Name: "SPARK_USER", Value: c.User}, {Name: attributePrefix + runAttribute, Value: a.run}},
				c.Environment...),
			JavaOpts: append(append([]string(nil), javaOptions...), c.JavaOpts...),
		},
	}
	if c.Family == sparkmsg.FamilyA { // its workers do not know the placeholder, and its executors take no word for a number
		args := &d.Command.Arguments
		*args = (*args)[:len(*args)-2]
	}
	if c.MaxCores > 0 {
		d.MaxCores = &c.MaxCores
	}
	return d
}

// executorConfig is the answer to RetrieveSparkAppConfig: the least with which an executor starts, and what was
// configured. The profile may be empty, but must have the number that was asked for.
func (a *App) executorConfig(profile int32) sparkmsg.Message {
	properties := []sparkmsg.Property{
		{Key: hostProperty, Value: a.self.Host},
		{Key: portProperty, Value: strconv.Itoa(int(a.self.Port))},
	}
	defaults := []sparkmsg.Property{
		{Key: "spark.executor.memory", Value: strconv.Itoa(int(a.cfg.MemoryMB)) + "m"},
		{Key: "spark.decommission.enabled", Value: "true"}, // else DecommissionExecutor is ignored
	}
	for _, d := range defaults {
		set := false
		for _, p := range a.cfg.Properties {
			set = set || p.Key == d.Key
		}
		if !set {
			properties = append(properties, d)
		}
	}
	return &sparkmsg.ForFamily{
		Family: a.cfg.Family,
		Message: &sparkmsg.SparkAppConfig{
			SparkProperties: append(properties, a.cfg.Properties...),
			ResourceProfile: sparkmsg.ResourceProfile{ID: profile},
		},
	}
}
