package fsm

// globals is what belongs to no entity. Immutable, like the entities.
type globals struct {
	ClusterID string   `codec:",omitempty"`
	Settings  Settings `codec:",omitempty"`
	// NextAppNumber is the number of the next application; it never goes back (G-06).
	NextAppNumber uint64 `codec:",omitempty"`
	// NextCompleted is the number of the next completed application, from 1.
	NextCompleted uint64         `codec:",omitempty"`
	Leaders       []LeaderRecord `codec:",omitempty"`
	// NextDriverNumber is the number of the next driver; it never goes back (G-06).
	NextDriverNumber uint64 `codec:",omitempty"`
	// CompletedDrivers counts the drivers that have ever ended: the number of the last one.
	CompletedDrivers uint64 `codec:",omitempty"`
	// StagedID names the restore that is being staged, "" for none; StagedChunks and StagedBytes are what is there.
	StagedID                  string `codec:",omitempty"`
	StagedChunks, StagedBytes int    `codec:",omitempty"`
	// Level is the level of commands that the cluster uses, 0 for LevelFirst.
	Level Level `codec:",omitempty"`

	sum digestSum
}

// tables hold the entities and the indexes over them. An index is a function of the entities alone: it is neither part
// of the digest nor of a snapshot.
type tables struct {
	workers   table[*Worker]
	apps      table[*Application]
	executors table[*Executor]
	removed   table[*RemovedExecutor]
	staged    table[*stagedChunk] // by number

	workerByAddress table[string]      // live workers, by RPC address
	workerByHost    table[string]      // live workers, by lower-case host and id
	deadByHostPort  table[string]      // DEAD workers, by what they said of themselves, and id (B-014)
	free            table[*Worker]     // workers that take work, in CoresFreeDesc order
	appByDriver     table[string]      // unfinished applications
	queue           table[string]      // unfinished applications by number
	wanting         table[string]      // those of them that want executors
	completed       table[string]      // completed applications by CompletedSeq
	byWorker        table[ExecutorKey] // executors by worker

	drivers         table[*Driver]
	driverQueue     table[string] // waiting drivers by number
	driverActive    table[string] // waiting and running drivers by number
	driverCompleted table[string] // completed drivers by CompletedSeq
	driversByWorker table[string] // running drivers by worker
}

func newTables() tables {
	return tables{
		workers: newTable[*Worker](), apps: newTable[*Application](), executors: newTable[*Executor](),
		removed: newTable[*RemovedExecutor](), staged: newTable[*stagedChunk](), workerByAddress: newTable[string](), workerByHost: newTable[string](),
		deadByHostPort: newTable[string](), free: newTable[*Worker](), appByDriver: newTable[string](),
		queue: newTable[string](), wanting: newTable[string](), completed: newTable[string](),
		byWorker: newTable[ExecutorKey](), drivers: newTable[*Driver](), driverQueue: newTable[string](),
		driverActive: newTable[string](), driverCompleted: newTable[string](), driversByWorker: newTable[string](),
	}
}

func (t *tables) commit() {
	t.workers.commit()
	t.apps.commit()
	t.executors.commit()
	t.removed.commit()
	t.staged.commit()
	t.workerByAddress.commit()
	t.workerByHost.commit()
	t.deadByHostPort.commit()
	t.free.commit()
	t.appByDriver.commit()
	t.queue.commit()
	t.wanting.commit()
	t.completed.commit()
	t.byWorker.commit()
	t.drivers.commit()
	t.driverQueue.commit()
	t.driverActive.commit()
	t.driverCompleted.commit()
	t.driversByWorker.commit()
}

// state is one version of everything. A committed state is immutable and shared by views and snapshots.
type state struct {
	index, term uint64
	globals     *globals
	tables      tables
	totals      Totals
	// fleet counts the changes of who the workers are, where, and what they can run. It belongs to this process: it is
	// neither part of the digest nor of a snapshot.
	fleet  uint64
	digest digestSum
}

// emptyState is what every cluster begins with.
func emptyState() *state {
	g := &globals{Settings: DefaultSettings(), NextCompleted: 1}
	g.sum = newSummer().sum(kindGlobals, g)
	return &state{globals: g, tables: newTables(), digest: g.sum}
}

// wantsExecutors tells whether the planner has any reason to look at the application: the gates of B-176 and B-182.
func wantsExecutors(a *Application) bool {
	if a.State.Finished() {
		return false
	}
	for i := range a.Profiles {
		if profileOpen(a, &a.Profiles[i]) {
			return true
		}
	}
	return false
}

func profileOpen(a *Application, p *ProfileState) bool {
	return p.Executors < p.Target && a.CoresLeft() >= coresPerExecutor(p.Profile)
}

// coresPerExecutor is the number for the gates: 1 if the application did not say (B-176).
func coresPerExecutor(p Profile) int {
	if p.Cores != nil {
		return *p.Cores
	}
	return 1
}

// profile finds the state of a profile; nil if the application never named it.
func (a *Application) profile(id int) *ProfileState {
	for i := range a.Profiles {
		if a.Profiles[i].Profile.ID == id {
			return &a.Profiles[i]
		}
	}
	return nil
}

// Profile finds what the application wants and holds of a profile.
func (a *Application) Profile(id int) (ProfileState, bool) {
	if p := a.profile(id); p != nil {
		return *p, true
	}
	return ProfileState{}, false
}
