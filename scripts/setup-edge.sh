#!/usr/bin/env bash
# What the tests of other machines need: emulators, cross compilers with the libraries of their
# systems, compilers for microcontrollers, Arduino's core for AVR boards, zig, which compiles C for
# most of them, Arm's compiler for Ethos-U, a Python for 64-bit ARM, and for WebAssembly node and a
# browser.
#
#     scripts/setup-edge.sh [PYTHON]      PYTHON: whose environment gets ziglang and ethos-u-vela
#
# Installs what is missing and can be installed, and names the rest; the tests that need it are
# skipped then. It never fails.
set -u
python=${1:-python3}

qemu_user=(qemu-aarch64 qemu-arm qemu-riscv64)
qemu_system=(qemu-system-arm)
cross=(aarch64-linux-gnu-gcc arm-linux-gnueabihf-gcc riscv64-linux-gnu-gcc)
cross_packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf
                libc6-dev-armhf-cross gcc-riscv64-linux-gnu libc6-dev-riscv64-cross)
avr=(avr-gcc simavr)
avr_packages=(gcc-avr avr-libc arduino-core-avr simavr libsimavr-dev libelf-dev)
arm=(arm-none-eabi-gcc)
arm_packages=(gcc-arm-none-eabi libnewlib-arm-none-eabi)
browsers=(chromium chromium-browser google-chrome)

lacking() {                       # the commands among the arguments that are not there
    local command
    for command in "$@"; do
        command -v "$command" >/dev/null || echo "$command"
    done
}

lacking_browser() {               # "chromium" where there is none of them
    [ "$(lacking "${browsers[@]}" | wc -l)" -lt ${#browsers[@]} ] || echo chromium
}

install_packages() {              # with apt, as root or through sudo without a password
    local root=()
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" -ne 0 ]; then
        sudo -n true 2>/dev/null || return 1
        root=(sudo -n)
    fi
    timeout 120 "${root[@]}" apt-get update -qq
    timeout 600 "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

packages=()
[ -z "$(lacking "${qemu_user[@]}")" ] || packages+=(qemu-user)
[ -z "$(lacking "${qemu_system[@]}")" ] || packages+=(qemu-system-arm)
[ -z "$(lacking "${cross[@]}")" ] || packages+=("${cross_packages[@]}")
[ -z "$(lacking "${avr[@]}")" ] || packages+=("${avr_packages[@]}")
[ -z "$(lacking "${arm[@]}")" ] || packages+=("${arm_packages[@]}")
[ -z "$(lacking node)" ] || packages+=(nodejs)
if [ ${#packages[@]} -gt 0 ]; then
    echo "setup-edge: installing ${packages[*]}"
    install_packages "${packages[@]}" || echo "setup-edge: apt could not install them"
fi
if [ -n "$(lacking_browser)" ]; then     # by itself: not every system has it under this name
    echo "setup-edge: installing chromium"
    install_packages chromium || echo "setup-edge: apt could not install it"
fi
if ! "$python" -c 'import ziglang' 2>/dev/null; then
    echo "setup-edge: installing ziglang"
    timeout 300 "$python" -m pip install --quiet ziglang || echo "setup-edge: pip could not install it"
fi
# zig makes a system's C library when it links for that system first: meanwhile, in the background
if "$python" -c 'import ziglang' 2>/dev/null && folder=$(mktemp -d); then
    echo 'int main(void) { return 0; }' > "$folder/main.c"
    (cd "$folder" || exit
     for system in x86_64-windows-gnu hexagon-linux-musl aarch64-windows-gnu aarch64-linux-musl \
                   aarch64-linux-gnu arm-linux-gnueabihf riscv64-linux-gnu; do
         nice "$python" -m ziglang cc -target "$system" main.c -o main
     done
     rm -rf "$folder") >/dev/null 2>&1 </dev/null &
fi
if ! "$python" -c 'import ethosu' 2>/dev/null; then
    echo "setup-edge: installing ethos-u-vela"
    timeout 120 "$python" -m pip install --quiet 'ethos-u-vela>=5' ||
        echo "setup-edge: pip could not install it"
fi
"$(dirname "${BASH_SOURCE[0]}")/arm64_python.sh" "$python"

missing=$(lacking "${qemu_user[@]}" "${qemu_system[@]}" "${cross[@]}" "${avr[@]}" "${arm[@]}" node
          lacking_browser)
"$python" -c 'import ziglang' 2>/dev/null || missing+=" ziglang"
"$python" -c 'import ethosu' 2>/dev/null || missing+=" ethos-u-vela"
if [ -n "$missing" ]; then
    echo "setup-edge: not there:" $missing "(tests that need them are skipped)"
else
    echo "setup-edge: all there"
fi
exit 0
