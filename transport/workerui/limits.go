package workerui

import "time"

// Limits of this package; those on connections, headers and the pace of answers are those of transport/webui and
// transport/internal/uibase.
const (
	// maxAnswers bounds the pages, lists and parts of logs that are built or sent at once, maxAnswersPerIP those of one
	// address; a further one waits answerWait for its turn. Each holds a View, or a part of a log.
	maxAnswers      = 16
	maxAnswersPerIP = 4
	answerWait      = time.Second
	// defaultLogBytes is Spark's default of byteLength; maxLogBytes bounds it, which Spark does not.
	defaultLogBytes = 100 << 10
	maxLogBytes     = 1 << 20
	// maxDownloads bounds the whole logs that are sent at once, in all and to one address; downloadTimeout the time of
	// one, which can be taken up again with a Range.
	maxDownloads      = 8
	maxDownloadsPerIP = 2
	downloadTimeout   = 2 * time.Hour
	// maxRanges bounds the parts that one download may consist of: each that lies before the last unpacks a compressed file
	// from its beginning once more.
	maxRanges = 4
	// readTimeout bounds the reading of a part of a log: compressed files before it are unpacked to be counted.
	readTimeout = 10 * time.Second
	// maxUnpackings bounds the compressed files that are counted at once.
	maxUnpackings = 2
	// defaultKeptLengths is how many lengths of compressed files are remembered (Options.CompressedLogLengths).
	defaultKeptLengths = 100
	// maxDirEntries bounds the directory of a log, which is the job's own working directory, and maxLogFiles the files
	// that one log consists of.
	maxDirEntries = 100_000
	maxLogFiles   = 2_000
	// listAttempts is how often a log is listed again when it is rolled at that moment.
	listAttempts = 5
	// maxName bounds an id in a request, as file systems do.
	maxName = 255
)
