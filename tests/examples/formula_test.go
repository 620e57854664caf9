//go:build linux || darwin

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/mopslock/mopslock/core"
)

// brew is what a formula asks of Homebrew. It prints what the formula says for each system, and where it installs what; then it
// runs the formula's test.
const brew = `
class Formula
  SYSTEMS = { %i[macos arm] => "darwin-arm64", %i[macos intel] => "darwin-amd64", %i[linux arm] => "linux-arm64", %i[linux intel] => "linux-amd64" }
  class << self
    %i[macos linux arm intel].each { |where| define_method(:"on_#{where}") { |&said| (@at ||= []).push(where); said.call; @at.pop } }
    %i[url sha256].each { |what| define_method(what) { |value| puts "#{SYSTEMS.fetch(@at)} #{what} #{value}" } }
    %i[desc homepage license].each { |what| define_method(what) { |value| puts "#{what} #{value}" } }
    def version(value) = puts("version #{$version = value}")
    def test(&test) = $test = test
  end
  Place = Struct.new(:name, :path) do
    def install(what)
      Array(what).each do |from, to = File.basename(from)|
        raise "there is no #{from}" unless File.file?(from)
        puts "#{name} #{to}"
      end
    end
    def to_s = path
  end
  def bin = Place.new("bin", ARGV[1])
  %i[man1 bash_completion zsh_completion fish_completion].each { |name| define_method(name) { Place.new(name) } }
  def version = $version
  def testpath = Dir.pwd
  def shell_output(command, status = 0)
    said = %x(#{command})
    raise "#{command}: #{$?}" if $?.exitstatus != status
    said
  end
  def assert_match(part, whole) = whole.include?(part) || raise("no #{part.inspect} in #{whole.inspect}")
  def assert_equal(want, got) = want == got || raise("#{got.inspect}, not #{want.inspect}")
end
load ARGV[0]
formula = MopslockHost.new
formula.install
formula.instance_eval(&$test)
puts "tested"
`

// TestFormula: what make release makes of Homebrew's formula names each system's archive, installs what is in it, and passes its own
// test with the command.
func TestFormula(t *testing.T) {
	if _, err := exec.LookPath("ruby"); err != nil {
		if os.Getenv("MOPSLOCK_TOOLS") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := newStage(t)
	sum := func(system string) string { return "the sum of " + system }
	formula, err := template.New("mopslock-host.rb.tmpl").Funcs(template.FuncMap{"sum": sum}).ParseFiles(root + "/.github/homebrew/mopslock-host.rb.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := formula.Execute(&text, map[string]string{"Version": core.Version}); err != nil {
		t.Fatal(err)
	}
	s.write("brew.rb", brew)
	s.write("mopslock-host.rb", text.String())
	for _, name := range []string{"man/mopslock-host.1", "man/mopslock-host-run.1", "completions/mopslock-host.bash", "completions/_mopslock-host", "completions/mopslock-host.fish", "mopslock-host"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		s.write(name, "")
	}
	p := s.start("ruby", "-w", "brew.rb", filepath.Join(s.dir, "mopslock-host.rb"), binaries)
	s.exits(p, 0)
	says := p.out.String()
	for _, system := range []string{"darwin-arm64", "darwin-amd64", "linux-arm64", "linux-amd64"} {
		for _, must := range []string{
			system + " url https://github.com/mopslock/mopslock/releases/download/v" + core.Version + "/mopslock-host-" + core.Version + "-" + system + ".tar.gz\n",
			system + " sha256 the sum of " + system + "\n",
		} {
			if !strings.Contains(says, must) {
				t.Errorf("no %q in:\n%s", must, says)
			}
		}
	}
	for _, must := range []string{"bin mopslock-host\n", "man1 mopslock-host-run.1\n", "bash_completion mopslock-host\n", "zsh_completion _mopslock-host\n", "fish_completion mopslock-host.fish\n", "tested\n"} {
		if !strings.Contains(says, must) {
			t.Errorf("no %q in:\n%s", must, says)
		}
	}
	if said := p.said.String(); strings.Contains(said, "warning") {
		t.Error(said)
	}
}
