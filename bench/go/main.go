// Times franz-go's cooperative-sticky balancer on a group in our JSON form, through its public interface.
//
//	bench GROUP.json CALLS [CACHES]    prints {"wire_ms": [...], "plan_ms": [...], "sync_ms": [...], "wall_ms": [...], "assignment": {...}}
//
// wire_ms is reading what the members said when they joined, plan_ms the plan, sync_ms writing what each is sent, so
// that the three together are a leader's call from bytes to bytes. Milliseconds are CPU time of the
// one thread that plans; what the collector does beside it is not in them.
//
// CACHES is what comes before each call: nothing, with the collector at work when it likes (in turn); else the collector,
// and behind it nothing (collected), the same call (warm), or one pass of the planning thread over more memory than the
// processor's caches hold (cold).
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type member struct {
	Topics     []string           `json:"topics"`
	Owned      map[string][]int32 `json:"owned"`
	Generation *int32             `json:"generation"`
	Rack       *string            `json:"rack"`
}

type group struct {
	Topics  map[string]json.RawMessage `json:"topics"`
	Members map[string]member          `json:"members"`
}

func main() {
	runtime.LockOSThread()
	var g group
	raw, err := os.ReadFile(os.Args[1])
	check(err)
	check(json.Unmarshal(raw, &g))
	calls, err := strconv.Atoi(os.Args[2])
	check(err)
	topics := map[string]int32{}
	for name, what := range g.Topics {
		topics[name] = count(what)
	}
	caches := "in turn"
	if len(os.Args) > 3 {
		caches = os.Args[3]
	}
	var wire, plan, sync, wall []float64
	for i := 0; i < calls; i++ {
		joined := said(g, kgo.CooperativeStickyBalancer())
		settle(caches, g, topics)
		at, began := cpu(), time.Now()
		balancer, _, err := kgo.CooperativeStickyBalancer().MemberBalancer(joined)
		check(err)
		read := cpu()
		into, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
		check(err)
		done := cpu()
		into.IntoSyncAssignment()
		written := cpu()
		wire = append(wire, read-at)
		plan = append(plan, done-read)
		sync = append(sync, written-done)
		wall = append(wall, float64(time.Since(began).Microseconds())/1000)
	}
	out := map[string]any{"wire_ms": wire, "plan_ms": plan, "sync_ms": sync, "wall_ms": wall, "assignment": target(g, topics)}
	check(json.NewEncoder(os.Stdout).Encode(out))
}

// memory is more than the caches hold.
var memory = make([]byte, 64<<20)

// settle leaves the caches as they are to be when the clock starts.
func settle(caches string, g group, topics map[string]int32) {
	if caches == "in turn" {
		return
	}
	same := said(g, kgo.CooperativeStickyBalancer())
	runtime.GC()
	switch caches {
	case "warm":
		balancer, _, err := kgo.CooperativeStickyBalancer().MemberBalancer(same)
		check(err)
		into, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
		check(err)
		into.IntoSyncAssignment()
		runtime.GC() // else what that call left would have the collector start during the next
	case "cold":
		for i := range memory {
			memory[i]++
		}
	}
}

// said is every member's join metadata, version 3.
func said(g group, balancer kgo.GroupBalancer) []kmsg.JoinGroupResponseMember {
	var joined []kmsg.JoinGroupResponseMember
	for id, m := range g.Members {
		generation := int32(-1)
		if m.Generation != nil {
			generation = *m.Generation
		}
		data := balancer.JoinGroupMetadata(m.Topics, m.Owned, generation)
		if m.Rack != nil {
			meta := kmsg.NewConsumerMemberMetadata()
			check(meta.ReadFrom(data))
			meta.Rack = m.Rack
			data = meta.AppendTo(nil)
		}
		one := kmsg.NewJoinGroupResponseMember()
		one.MemberID, one.ProtocolMetadata = id, data
		joined = append(joined, one)
	}
	sort.Slice(joined, func(i, j int) bool { return joined[i].MemberID < joined[j].MemberID })
	return joined
}

// target is what the eager twin says: the same plan with nothing withheld for a round.
func target(g group, topics map[string]int32) map[string]map[string][]int32 {
	balancer, _, err := kgo.StickyBalancer().MemberBalancer(said(g, kgo.StickyBalancer()))
	check(err)
	into, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(topics)
	check(err)
	all := map[string]map[string][]int32{}
	for _, one := range into.IntoSyncAssignment() {
		given, err := kgo.ParseConsumerSyncAssignment(one.MemberAssignment)
		check(err)
		all[one.MemberID] = given
	}
	return all
}

func count(what json.RawMessage) int32 {
	var n int32
	if json.Unmarshal(what, &n) == nil {
		return n
	}
	var rows []json.RawMessage
	check(json.Unmarshal(what, &rows))
	return int32(len(rows))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
