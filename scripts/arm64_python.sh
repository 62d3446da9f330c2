#!/usr/bin/env bash
# A Python for 64-bit ARM, which qemu runs here, with the packages that smelt needs: for the tests
# of its wheels. It lies in the user's cache; nothing of the system is changed, nor of its apt.
#
#     scripts/arm64_python.sh [PYTHON]      PYTHON: whose pip gets the packages
#     qemu-aarch64 -L FOLDER FOLDER/usr/bin/python3      FOLDER: the one that it names
#
# Says what is missing where it cannot be made, and never fails.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${1:-python3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/smelt-edge
tree=$cache/arm64

stop() {
    echo "arm64-python: $*"
    exit 0
}

requirements=$("$python" -c '
import pathlib, sys, tomllib
project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
print(*project["dependencies"], sep="\n")' "$here/../pyproject.toml" 2>/dev/null) ||
    stop "not there: $python is no Python 3.11 or newer"
made_of=$(printf '%s\n' "$requirements" | cat - "${BASH_SOURCE[0]}" | cksum)
[ "$(cat "$tree/made-of" 2>/dev/null)" != "$made_of" ] || stop "all there, in $tree"

for command in apt-get dpkg-deb tar timeout qemu-aarch64; do
    command -v "$command" >/dev/null || stop "not there: $command is missing"
done
echo "arm64-python: making it in $tree"
mkdir -p "$cache" 2>/dev/null && work=$(mktemp -d "$cache/arm64.XXXXXX") ||
    stop "not there: no folder in $cache"
trap 'rm -rf "$work"' EXIT
trap 'exit 0' INT TERM

# A state and a cache of its own: apt knows of no installed package then, and takes all that Python
# needs. The hooks of the system are not meant for it.
mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial"
: > "$work/apt/status"
cat > "$work/apt/conf" <<EOF
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Debug::NoLocking "true";
Dir::State "$work/apt/state";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Dir::Log "$work/apt";
EOF
timeout 120 apt-get -c "$work/apt/conf" -qq update >"$work/apt/said" 2>&1
timeout 300 apt-get -c "$work/apt/conf" -qq -y --download-only \
    install python3-minimal libpython3-stdlib libstdc++6 >>"$work/apt/said" 2>&1 ||
    stop "not there: apt has no Python for arm64: $(tail -n 1 "$work/apt/said")"

# Debian's /lib is a link. Some packages unpack into it still: the link has to stay one.
root=$work/tree
for folder in bin lib sbin; do
    mkdir -p "$root/usr/$folder"
    ln -s "usr/$folder" "$root/$folder"
done
for package in "$work"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" |
        tar -x --keep-directory-symlink --no-same-owner -C "$root" ||
        stop "not there: $(basename "$package") cannot be unpacked"
done
program=$(readlink "$root/usr/bin/python3")       # python3.11
case $program in
    python3.1[1-9]) ;;
    *) stop "not there: this system's Python is ${program:-missing}, and smelt needs 3.11" ;;
esac

platforms=(--platform manylinux2014_aarch64)      # and all that its glibc is new enough for
glibc=$(basename "$work"/apt/cache/archives/libc6_*.deb | sed 's/^libc6_2\.\([0-9]*\).*/\1/')
for version in $(seq 17 "$glibc"); do
    platforms+=(--platform "manylinux_2_${version}_aarch64")
done
printf '%s\n' "$requirements" > "$work/requirements"
timeout 300 "$python" -m pip install --quiet --disable-pip-version-check --no-input \
    --target "$root/usr/lib/python3/dist-packages" --only-binary=:all: --implementation cp \
    --python-version "${program#python}" "${platforms[@]}" -r "$work/requirements" \
    >"$work/said" 2>&1 || stop "not there: pip has not got its packages: $(tail -n 1 "$work/said")"
timeout 120 qemu-aarch64 -L "$root" "$root/usr/bin/python3" \
    -c 'import llvmlite.binding, numpy, onnx' \
    >"$work/said" 2>&1 || stop "not there: it does not run: $(tail -n 1 "$work/said")"

printf '%s\n' "$made_of" > "$root/made-of"
rm -rf "$tree"
mv -T "$root" "$tree" 2>/dev/null || stop "not there: $tree is in the way"
stop "all there, in $tree"
