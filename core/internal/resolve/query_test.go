package resolve

import (
	"strings"
	"testing"

	"github.com/mopslock/mopslock/core"
)

// walk asks what is next until the query is over, and answers from a list.
func walk(t *testing.T, q *Query, store Verdict, answers string) string {
	t.Helper()
	names := [...]string{"begin", "refuse", "recall", "memo?", "record?", "fall back", "try", "try later", "result?", "failure?"}
	var said []string
	left := strings.Fields(answers)
	for {
		step := q.Next(store)
		said = append(said, names[step])
		if step == Begin || step == Refuse {
			return strings.Join(said, ", ") + [...]string{"", ": lastwriter", ": strict", ": bridge"}[q.Protocol] +
				strings.TrimSuffix(" "+q.Reason.String(), " "+core.ReasonNone.String())
		}
		if step == FallBack {
			continue
		}
		if len(left) == 0 {
			t.Fatalf("%v: no answer", said)
		}
		answer := left[0]
		left = left[1:]
		switch answer {
		case "new", "recent":
			q.Recalled(answer == "recent")
		case "yes", "no":
			q.Saw(answer == "yes")
		case "silent":
			q.Unanswered(core.ReasonUnreachable, core.ClassNone)
		case "honours":
			store = Honoured
		case "ignores":
			store = Ignored
		case "limit", "over", "readonly", "unusable", "unreachable":
			reason, class := core.ReasonLimit, core.ClassUnreachable
			switch answer {
			case "readonly":
				reason, class = core.ReasonUnusable, core.ClassReadOnly
			case "unusable":
				reason, class = core.ReasonUnusable, core.ClassOther
			case "unreachable":
				reason = core.ReasonUnreachable
			}
			if q.NotTried(reason, class, answer == "over") == TryLater {
				said = append(said, "later")
			}
		}
	}
}

// TestQuery: which questions are asked, in which order, and what comes of the answers.
func TestQuery(t *testing.T) {
	for _, test := range []struct {
		q       Query
		store   Verdict
		answers string
		want    string
	}{
		{Query{Use: Join, Protocol: core.ProtocolStrict}, Unknown, "", "begin: strict"},
		{Query{Use: Lease, Protocol: core.ProtocolLastWriter}, Unknown, "recent", "recall, begin: lastwriter"},
		{Query{Use: Lease}, Unknown, "recent", "recall, begin: strict"},
		{Query{Use: Lease}, Honoured, "new no", "recall, record?, begin: strict"},
		{Query{Use: Lease}, Honoured, "new yes", "recall, record?, begin: bridge"},
		{Query{Use: Lease}, Unknown, "new yes honours", "recall, record?, try, begin: bridge"},
		{Query{Use: Lease, Protocol: core.ProtocolBridge}, Unknown, "new honours", "recall, try, begin: bridge"},
		{Query{Use: Lease, Protocol: core.ProtocolBridge}, Ignored, "new", "recall, refuse: bridge no_create"},
		{Query{Use: Lease, Protocol: core.ProtocolStrict}, Honoured, "new yes", "recall, record?, begin: strict"},
		{Query{Use: Lease}, Unknown, "new no honours", "recall, record?, try, begin: strict"},
		{Query{Use: Lease}, Unknown, "new no ignores", "recall, record?, try, fall back, begin: lastwriter"},
		{Query{Use: Lease}, Ignored, "new", "recall, fall back, begin: lastwriter"},
		{Query{Use: Lease, Protocol: core.ProtocolStrict}, Ignored, "new", "recall, refuse: strict no_create"},
		{Query{Use: Lease}, Unknown, "new silent", "recall, record?, refuse unreachable"},
		{Query{Use: Lease}, Unknown, "new no limit honours", "recall, record?, try, try, begin: strict"},
		{Query{Use: Lease}, Unknown, "new no over", "recall, record?, try, refuse limit"},
		{Query{Use: Lease}, Unknown, "new no readonly", "recall, record?, try, refuse unusable"},
		{Query{Use: Semaphore, Protocol: core.ProtocolStrict}, Unknown, "new ignores", "recall, try, refuse: strict no_create"},
		{Query{Use: Work}, Unknown, "yes", "memo?, refuse kind"},
		{Query{Use: Work}, Honoured, "no new no", "memo?, recall, record?, begin: strict"},
		{Query{Use: Work, Protocol: core.ProtocolLastWriter}, Unknown, "no new honours", "memo?, recall, try, begin: lastwriter"},
		{Query{Use: Work, Protocol: core.ProtocolLastWriter}, Unknown, "no new unusable", "memo?, recall, try, begin: lastwriter"},
		{Query{Use: Work}, Unknown, "no new yes ignores", "memo?, recall, record?, try, fall back, begin: lastwriter"},
		{Query{Use: Work}, Unknown, "no new no readonly yes", "memo?, recall, record?, try, result?, begin: strict"},
		{Query{Use: Work}, Unknown, "no new no readonly no", "memo?, recall, record?, try, result?, refuse unusable"},
		{Query{Use: Work, Memoizes: true}, Unknown, "no new no readonly no yes", "memo?, recall, record?, try, result?, failure?, begin: strict"},
		{Query{Use: Work, Memoizes: true}, Unknown, "no new no readonly no silent", "memo?, recall, record?, try, result?, failure?, refuse unusable"},
		{Query{Use: Remote, Protocol: core.ProtocolStrict}, Unknown, "", "begin: strict"},
		{Query{Use: Remote, Protocol: core.ProtocolLastWriter}, Unknown, "unreachable honours", "try, later, try, begin: lastwriter"},
		{Query{Use: Remote, Protocol: core.ProtocolLastWriter, Leased: true}, Unknown, "unusable", "try, begin: lastwriter"},
		{Query{Use: Remote, Protocol: core.ProtocolLastWriter}, Unknown, "over", "try, begin: lastwriter"},
		{Query{Use: Remote, Protocol: core.ProtocolLastWriter, Leased: true}, Unknown, "over", "try, refuse: lastwriter unreadable"},
	} {
		q := test.q
		if got := walk(t, &q, test.store, test.answers); got != test.want {
			t.Errorf("%+v, %s:\n %s\nnot\n %s", test.q, test.answers, got, test.want)
		}
	}
}
