# The commands people type; the build itself is Meson's.
#
#   make            install what the build needs, build into $(BUILD): the programs, no tests
#   make demo       the same, profile a real program, show its top sites
#   make test       everything that must hold; the last line is "N passed, N failed[, N skipped]"
#   make asan       unit tests and fuzz entries under AddressSanitizer and UBSan
#   make fuzz       longer fuzzing with libFuzzer (FUZZ_SECONDS an entry, default 60)
#   make bench      our figures beside those of other profilers (see bench/README.md)
#   make screenshots  the pictures of README.md, of redis-server in a headless Chromium
#   make dist       the release archive, with the built page: building from it takes no Node
#   make deb        the Debian package, in build-deb
#   make test-packages  ... installed in a minimal system of its own (root; long)
#   make install    PREFIX=dir (default /usr/local), DESTDIR=
BUILD        ?= build
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 60
MESON        ?= meson
NINJA        ?= ninja

# Without debug information the compiler takes a fifth less; `meson configure $(BUILD) -Ddebug=true` for a debugger.
SETUP = test -f $(1)/build.ninja || $(MESON) setup $(1) -Dlibdir=lib $(2)
HAS_TESTS = $(MESON) introspect --buildoptions $(BUILD) | grep -q '"name": "tests", "value": true'

all: build

build:
	tools/bootstrap build
	$(call SETUP,$(BUILD),-Dtests=false -Ddebug=false)
	$(NINJA) -C $(BUILD)

# With all tests and benchmarks.
build-tests: bootstrap
	$(call SETUP,$(BUILD),-Ddebug=false)
	$(HAS_TESTS) || $(MESON) configure $(BUILD) -Dtests=true
	$(NINJA) -C $(BUILD)

bootstrap:
	tools/bootstrap

demo:
	tools/bootstrap demo
	$(MAKE) build
	tools/demo $(BUILD)

test: bootstrap
	tools/run-tests --build $(BUILD)

# The unit tests alone, for the loop of edit and try: those of the suite "slow" (samples to compile, an emulator, thousands of
# calls to interrupt) with HW_LONG=1, and in `make test`.
check: build-tests
	$(MESON) test -C $(BUILD) --no-rebuild --suite unit $(if $(HW_LONG),,--no-suite slow) --print-errorlogs

asan: bootstrap
	tools/run-tests --build $(BUILD) --only asan

tsan: bootstrap
	tools/run-tests --build $(BUILD) --only tsan

fuzz: bootstrap
	CC=clang CFLAGS=-fsanitize=fuzzer-no-link $(SHELL) -c '$(call SETUP,$(BUILD)-fuzz,-Dlibfuzzer=true -Db_sanitize=address$(comma)undefined -Db_lundef=false -Dwerror=false)'
	tools/fuzz $(BUILD)-fuzz $(FUZZ_SECONDS)

bench: build-tests
	bench/figures $(BUILD)

screenshots: build-tests
	HW_BUILD=$(abspath $(BUILD)) tests/browser/run pictures.mjs

dist:
	tools/bootstrap page
	$(MAKE) build
	$(MESON) dist -C $(BUILD) --no-tests --formats gztar

deb:
	tools/bootstrap page
	tools/make-deb

test-packages: build-tests
	HW_BUILD=$(abspath $(BUILD)) HW_LONG=1 python3 -B tests/packages/packages.py root systemd

format:
	tools/check-format --fix
	tools/check-ui --fix

install: build
	$(MESON) configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) -Dlibdir=lib
	$(MESON) install -C $(BUILD) --quiet

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz
	$(MAKE) -C bench clean

comma := ,
.PHONY: all build build-tests bootstrap demo test check asan tsan fuzz bench screenshots format install dist deb test-packages clean
