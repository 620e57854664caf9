package metrics

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/mopslock/mopslock/host/keep"
)

// Reader reads the metrics when it is asked, for the parent of a keeper.
type Reader struct {
	reader   *sdk.ManualReader
	provider *sdk.MeterProvider
}

// NewReader makes a Reader.
func NewReader() *Reader {
	reader := sdk.NewManualReader()
	return &Reader{reader, sdk.NewMeterProvider(sdk.WithReader(reader))}
}

// Meter is what Hosts take their metrics by.
func (r *Reader) Meter() metric.MeterProvider { return r.provider }

// Counted is all that was counted.
func (r *Reader) Counted(ctx context.Context) (all []keep.Counted, err error) {
	var read metricdata.ResourceMetrics
	if err := r.reader.Collect(ctx, &read); err != nil {
		return nil, err
	}
	for _, scope := range read.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch found := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range found.DataPoints {
					all = append(all, keep.Counted{Name: m.Name, Labels: labels(point.Attributes), Value: point.Value})
				}
			case metricdata.Histogram[float64]:
				for _, point := range found.DataPoints {
					all = append(all, keep.Counted{Name: m.Name, Labels: labels(point.Attributes), Sum: point.Sum, Buckets: point.BucketCounts})
				}
			}
		}
	}
	return all, nil
}

func labels(set attribute.Set) map[string]string {
	named := map[string]string{}
	for _, one := range set.ToSlice() {
		named[string(one.Key)] = one.Value.String()
	}
	return named
}
