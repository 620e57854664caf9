package main

import (
	"io"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/rs/zerolog"
)

// packBills writes an SBOM in the format of CycloneDX for each system: the modules that its
// binary says it was built from, and the Go release.
func (r *release) packBills() error {
	for _, system := range r.systems {
		generator, err := bin.NewGenerator(r.binary(system), bin.WithIncludeStdlib(true), bin.WithVersionOverride("v"+r.version), bin.WithLogger(zerolog.Nop()))
		if err != nil {
			return err
		}
		bill, err := generator.Generate()
		if err != nil {
			return err
		}
		err = create(r.path(r.archive(system)+".cdx.json"), func(to io.Writer) error {
			return cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bill, cdx.SpecVersion1_6)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
