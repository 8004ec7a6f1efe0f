package sparkmsg

import "testing"

// The messages of the hot paths: what workers and drivers send most, and what the leader writes for each launch and
// each registration. Recordings of Spark 4.3.0.
func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"RegisterWorker", "Heartbeat", "ExecutorStateChanged", "WorkerLatestState"} {
		b.Run(name, func(b *testing.B) { benchmarkDecode(b, find(b, "worker-to-master-"+name, FamilyE).stream) })
	}
	b.Run("RegisterApplication", func(b *testing.B) {
		benchmarkDecode(b, find(b, "driver-to-master-RegisterApplication", FamilyE).stream)
	})
}

func benchmarkDecode(b *testing.B, stream []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(stream)))
	for b.Loop() {
		if _, err := Decode(stream); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"master-to-worker-LaunchExecutor", "master-to-worker-RegisteredWorker", "master-to-driver-ExecutorAdded"} {
		d, err := Decode(find(b, name, FamilyE).stream)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(d.Msg.MessageName(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Encode(d.Msg, FamilyE); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
