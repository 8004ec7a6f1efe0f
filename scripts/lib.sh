# Shared by the scripts of this directory; sourced, never run. Needs bash.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${RAFTMASTER_CACHE:-$HOME/.cache/raftmaster}

# What a terminal shows in bold; plain elsewhere.
if [[ -t 1 ]]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi

step() { printf '%s[%3ds] %s%s\n' "$bold" "$SECONDS" "$*" "$plain"; }
info() { printf '       %s\n' "$*"; }
die() {
  printf '\nERROR: %s\n' "$1" >&2
  shift
  (($# == 0)) || printf '       %s\n' "$@" >&2
  exit 1
}

# as_root CMD...: runs it as root where that needs no password; 77 when it cannot.
as_root() {
  if [[ $(id -u) == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    return 77
  fi
}

# apt_install PACKAGE...: installs Debian packages without asking; fails where it may not.
apt_install() {
  command -v apt-get >/dev/null || return 77
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null >/dev/null || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

# need_go and need_python name what is missing and how to get it.
need_go() {
  command -v go >/dev/null && return
  [[ -x /usr/local/go/bin/go ]] && PATH=$PATH:/usr/local/go/bin && return
  die "Go is not installed." "Raftmaster is built from source with Go $(sed -n 's/^go //p' "$root/go.mod") or later: https://go.dev/dl/"
}

need_python() {
  command -v python3 >/dev/null ||
    die "Python 3 is not installed." "Debian: apt-get install python3 python3-venv"
  python3 -c 'import venv, ensurepip' 2>/dev/null && return
  info "Python 3 has no venv module: installing python3-venv"
  apt_install python3-venv ||
    die "Python 3 has no venv module." "Debian: apt-get install python3-venv"
}

# java_version JAVA: prints the major version, nothing when it does not run.
java_version() {
  "$1" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

# find_java: sets JAVA_HOME to a Java of 17 or later; fails when there is none.
find_java() {
  local java version
  for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
    [[ -n $java && -x $java ]] || continue
    version=$(java_version "$java")
    if [[ -n $version ]] && ((version >= 17)); then
      java=$(readlink -f "$java")
      JAVA_HOME=${java%/bin/java}
      export JAVA_HOME
      return 0
    fi
  done
  return 1
}

# need_java: find_java, and where it fails the newest runtime that Debian has.
need_java() {
  find_java && return
  local package
  info "no Java 17 or later found"
  if command -v apt-get >/dev/null && as_root apt-get update -qq </dev/null >/dev/null; then
    for package in openjdk-21-jre-headless openjdk-17-jre-headless; do
      apt-cache policy "$package" 2>/dev/null | grep -q 'Candidate: [^(]' || continue
      info "installing $package"
      apt_install "$package" && find_java && return
    done
  fi
  die "Spark needs Java 17 or later, and it could not be installed from here." \
    "Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless (or openjdk-21-jre-headless)" \
    "Fedora:           sudo dnf install java-21-openjdk-headless" \
    "Elsewhere:        unpack a JDK and set JAVA_HOME"
}

# install_spark RELEASE: sets SPARK_HOME and PYSPARK_PYTHON. The installation is a virtual environment in the cache; it
# is made under a temporary name and moved into place, under a lock, so that runs at the same time share one.
install_spark() {
  local release=$1 dir=$cache/spark-$1 temp lock
  mkdir -p "$cache"
  exec {lock}>"$cache/spark-$release.lock"
  flock "$lock"
  if ! spark_works "$dir" "$release"; then
    info "installing PySpark $release into $dir (about 450 MB to fetch, once)"
    rm -rf "$dir".tmp.*
    temp=$dir.tmp.$$
    python3 -m venv "$temp" || die "python3 -m venv failed." "Debian: apt-get install python3-venv"
    "$temp/bin/python" -m pip install --quiet --disable-pip-version-check "pyspark==$release" ||
      { rm -rf "$temp"; die "pip could not install pyspark==$release (is PyPI reachable?)"; }
    rm -rf "$dir"
    mv "$temp" "$dir"
    spark_works "$dir" "$release" || die "PySpark in $dir does not work after its installation"
  fi
  exec {lock}>&-
  PYSPARK_PYTHON=$dir/bin/python
  SPARK_HOME=$("$PYSPARK_PYTHON" -I -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')
  export SPARK_HOME PYSPARK_PYTHON
}

spark_works() {
  [[ $("$1/bin/python" -I -c 'import pyspark; print(pyspark.__version__)' 2>/dev/null) == "$2" ]] || return 1
  compgen -G "$1/lib/python*/site-packages/pyspark/jars/spark-core_*-$2.jar" >/dev/null
}

build_programs() { # DIRECTORY
  mkdir -p "$1"
  (cd "$root" && go build -o "$1/" ./cmd/raftmaster ./cmd/raftctl)
}

# take_ports COUNT: sets the array ports to free ports of 127.0.0.1 below the ephemeral range. The block that they come
# from stays locked while this script, or anything it starts, lives.
take_ports() {
  local block base
  mkdir -p "$cache/ports"
  for ((block = 0; block < 500; block++)); do
    base=$((21000 + 20 * ((block + $$) % 500)))
    exec {ports_lock}>"$cache/ports/$base.lock"
    if flock -n "$ports_lock" && mapfile -t ports < <(python3 "$root/scripts/python/cluster_tool.py" ports "$base" "$1") &&
      ((${#ports[@]} == $1)); then
      return
    fi
    exec {ports_lock}>&-
  done
  die "no $1 free ports between 21000 and 31000 on 127.0.0.1"
}

# A run is a directory with bin/, log/, data/, conf/ and pids: one "name pid" a line. Each process leads its own group
# and carries RAFTMASTER_RUN in its environment, so that nothing else is ever stopped.
new_run() { # DIRECTORY
  run=$1
  mkdir -p "$run"/{log,data,conf,work,tmp}
  : >"$run/pids"
}

# spark_environment: what Spark's processes of a run get, and nothing of the caller's own Spark.
spark_environment() {
  local name
  for name in $(compgen -e | grep -E '^(SPARK|HADOOP|YARN)_|^(JDK_JAVA_OPTIONS|JAVA_TOOL_OPTIONS)$'); do
    [[ $name == SPARK_HOME ]] || unset "$name"
  done
  export SPARK_CONF_DIR=$run/conf SPARK_LOCAL_DIRS=$run/tmp SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=127.0.0.1 \
    SPARK_DAEMON_MEMORY=256m PYTHONDONTWRITEBYTECODE=1
}

start_process() { # NAME COMMAND...
  local name=$1 pid _
  shift
  setsid env RAFTMASTER_RUN="$run" "$@" </dev/null >>"$run/log/$name.log" 2>&1 &
  pid=$!
  disown "$pid" # the shell is not to comment on its end
  echo "$name $pid" >>"$run/pids"
  for _ in {1..100}; do # until it carries the mark that is_ours looks for
    if is_ours "$pid" || ! kill -0 "$pid" 2>/dev/null; then return; fi
    sleep 0.02
  done
}

pid_of() { awk -v name="$1" '$1 == name { pid = $2 } END { print pid }' "$run/pids"; } # NAME

is_ours() { # PID: it lives and belongs to this run
  grep -qzxF "RAFTMASTER_RUN=$run" "/proc/$1/environ" 2>/dev/null
}

# stop_run: SIGTERM to everything of the run, workers and applications before masters, then SIGKILL to what is left.
stop_run() {
  local pid pattern pids _
  for pattern in '^[^m]' '^m'; do
    mapfile -t pids < <(awk -v p="$pattern" '$1 ~ p { print $2 }' "$run/pids")
    for pid in "${pids[@]}"; do
      if is_ours "$pid"; then kill -TERM -- "-$pid" 2>/dev/null || true; fi
    done
    for _ in {1..50}; do
      any_ours "${pids[@]}" || break
      sleep 0.1
    done
  done
  for _ in {1..20}; do
    mapfile -t pids < <(marked_pids)
    ((${#pids[@]})) || break
    kill -KILL "${pids[@]}" 2>/dev/null || true
    sleep 0.1
  done
}

any_ours() {
  local pid
  for pid in "$@"; do is_ours "$pid" && return 0; done
  return 1
}

marked_pids() { # every process of the run, executors and Python workers too
  local file
  for file in /proc/[0-9]*/environ; do
    grep -qzxF "RAFTMASTER_RUN=$run" "$file" 2>/dev/null && echo "${file//[^0-9]/}"
  done
  return 0
}

masters=() webs=() rests=() # ports by master; the caller sets them before start_masters

start_masters() { # sets cluster_url and endpoints
  local i
  cluster_url=spark://$(printf '127.0.0.1:%s,' "${masters[@]}")
  cluster_url=${cluster_url%,}
  endpoints=$(printf 'http://127.0.0.1:%s,' "${webs[@]}")
  endpoints=${endpoints%,}
  for i in "${!masters[@]}"; do start_master "$i"; done
}

start_master() { # INDEX
  start_process "master$(($1 + 1))" "$run/bin/raftmaster" server --cluster "$cluster_url" --host 127.0.0.1 \
    --port "${masters[$1]}" --webui-port "${webs[$1]}" --rest-port "${rests[$1]}" --data-dir "$run/data/master$(($1 + 1))"
}

start_worker() { # NUMBER PORT WEBPORT CORES MEMORY
  start_process "worker$1" "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 \
    --port "$2" --webui-port "$3" --cores "$4" --memory "$5" --work-dir "$run/work/worker$1" "$cluster_url"
}

tool() { python3 "$root/scripts/python/cluster_tool.py" "$@"; }

# show_log NAME [LINES]: the tail of a process's log, to explain a failure.
show_log() {
  printf -- '----- last lines of %s\n' "$run/log/$1.log" >&2
  tail -n "${2:-15}" "$run/log/$1.log" >&2 || true
}
