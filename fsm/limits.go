package fsm

// Limits of the package, in one place. All are checked before anything of that size is allocated.
const (
	// MaxCommandBytes is raft's suggested size of an entry.
	MaxCommandBytes = 512 << 10
	// MaxPayloadCommandBytes holds for RegisterApplication and SubmitDriver, which carry a payload.
	MaxPayloadCommandBytes = 640 << 10
	// MaxPayloadBytes bounds the payload itself.
	MaxPayloadBytes = 512 << 10
	// MaxIDBytes bounds identifiers, hosts and names of resources.
	MaxIDBytes = 255
	// MaxTextBytes bounds names, URLs, reasons and messages that are stored.
	MaxTextBytes = 8 << 10
	// MaxListEntries bounds lists inside a command that are stored (resources, addresses, targets).
	MaxListEntries = 4096
	// MaxProfiles bounds the profiles of one application, MaxProfileResources the custom resources of one profile.
	MaxProfiles         = 256
	MaxProfileResources = 64
	// MaxEntityBytes bounds what one application holds beside its payload, and what one worker offers, as weighed by
	// weight.go. Every change of an entity hashes all of it: a peer that could make it large could stall every replica.
	MaxEntityBytes = 256 << 10
	// maxUsedBytes bounds the addresses in use on one worker: after it registered again with other resources, more may be
	// in use than it offers.
	maxUsedBytes = 2 * MaxEntityBytes
	// MaxWaitingDrivers bounds the queue of drivers, each of which may have a payload (G-60).
	MaxWaitingDrivers = 10_000
	// MaxDriverPayloads bounds the payloads of all unfinished drivers together, in bytes. Every master holds them in
	// memory and in its snapshots; a description has a few KiB.
	MaxDriverPayloads = 256 << 20
	// maxLeaders bounds the remembered elections, whatever the settings say.
	maxLeaders = 512
	// maxSnapshotRecordBytes bounds one record of a snapshot.
	maxSnapshotRecordBytes = 8 << 20
	// maxDecodeDepth and maxInitLen protect the msgpack decoder.
	maxDecodeDepth = 16
	maxInitLen     = 1024
)

// MaxPlacements bounds a PlaceExecutors command, so that it fits into MaxCommandBytes.
const MaxPlacements = 2048
