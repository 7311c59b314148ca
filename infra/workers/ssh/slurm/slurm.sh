#!/bin/sh
# What the ssh worker does on a login node of Slurm: one batch job for each try of a flow run, found by its name, so that a
# lost answer or another worker changes nothing. Called as `sh slurm.sh VERB …`; FOLDER is a job's own, in a home that
# the compute nodes share, and its name the job's in Slurm.
#
#   start FOLDER PROFILE_BYTES ENV_BYTES PYTHON TREE OPTION… SCRIPT ARGUMENT…
#                         makes the job's environment, and `sbatch OPTION… SCRIPT ARGUMENT…`: 0 Slurm has the job, or
#                         had it already; 74 not (stderr: why)
#   look FOLDER           key=value lines: state, job, scontrol, sacct, exit, waited, …
#   lines FOLDER OFFSET   the log from a byte on, until the job has ended; nothing for one that has not begun
#   stop FOLDER GRACE_S   cancels the job, whatever it does; 0 once Slurm has none of that name
#   check                 key=value lines about the login node and the cluster, for the preflight
#
# FOLDER/pull holds the words of `PYTHON TREE pull …`, each ended by NUL. It runs here, because compute nodes often reach
# no package index, and the home is theirs, too. FOLDER/profiles.toml and FOLDER/env hold what nobody else may
# read; they are there as long as the job may need them.
set -u
umask 077
BROKEN=74
PENDING_S=10 # how long `lines` waits for a job to begin
PULL_S=1500
WORDS=100000 # with a limit of words, xargs refuses what does not fit instead of splitting it
ROUND_S=15   # between questions to Slurm about a job that runs: its controller serves everybody
verb=$1
shift

mine() { squeue --noheader --user="$(id -un)" --name="$1" "$2" --format="$3"; }

number() { # FOLDER: Slurm's number of the job, noted or found by its name
    if [ -s "$1/slurm" ]; then
        cat "$1/slurm"
    else
        mine "$(basename "$1")" --states=all %i 2>/dev/null | head -n 1
    fi
}

hide() { # FOLDER PROFILE_BYTES ENV_BYTES: what comes over stdin, for the job's user alone
    cat >"$1/both" && [ "$(wc -c <"$1/both")" -eq "$(($2 + $3))" ] &&
        head -c "$2" "$1/both" >"$1/profiles.toml" && tail -c "+$(($2 + 1))" "$1/both" >"$1/env" && rm -f "$1/both"
}

forget() { # FOLDER: nothing secret stays, and in a while nothing at all
    rm -f "$1/profiles.toml" "$1/env" "$1/both"
    [ ! -d "$1" ] || : >"$1/ended"
}

has() { # FOLDER STATES: is the job in one of them? Where Slurm gives no answer, it may be.
    left=$(mine "$(basename "$1")" --states="$2" %i 2>/dev/null) || return 0
    [ -n "$left" ]
}

runs() { has "$1" CONFIGURING,RUNNING,COMPLETING,RESIZING,SIGNALING; }

active() { has "$1" PENDING,CONFIGURING,RUNNING,SUSPENDED,COMPLETING,STOPPED,RESIZING,SIGNALING; }

ended() { # FOLDER: has the root of the job's processes written down how it ended?
    [ -f "$1/exit" ] && read -r code _ <"$1/exit" && [ "$code" != none ]
}

watch() { # FOLDER TAIL: until the job has ended, or the process TAIL
    waited=0
    until ended "$1"; do
        kill -0 "$2" || return
        if [ "$waited" -ge $ROUND_S ]; then
            runs "$1" || break
            waited=0
        fi
        sleep 1
        waited=$((waited + 1))
    done
    sleep 1 # what was written last
}

case $verb in
start)
    folder=$1 profile=$2 env=$3 python=$4 tree=$5
    shift 5
    exec 8>"$folder/starting" || exit $BROKEN
    flock -w 60 8 2>/dev/null # some shared file systems have no locks: one worker alone starts a job there
    if [ -n "$(number "$folder")" ] || ended "$folder"; then exit 0; fi
    if [ -f "$folder/pull" ] &&
        ! timeout $PULL_S xargs -0 -x -n $WORDS "$python" "$tree" <"$folder/pull" >>"$folder/log" 2>&1 8>&-; then
        echo 'unpulled none' >"$folder/exit"
        exit 0
    fi
    hide "$folder" "$profile" "$env" || exit $BROKEN
    cat /proc/sys/kernel/random/boot_id >"$folder/login"
    said=$(sbatch "$@" 2>"$folder/refusal" 8>&-)
    case $said in
    [0-9]*) printf '%s\n' "${said%%;*}" >"$folder/slurm" ;;
    *) # its answer can be lost, and the job be there; one that it refuses is there as well, and has failed
        sleep 2
        if ! active "$folder" && [ ! -e "$folder/begun" ]; then
            cat "$folder/refusal" >&2
            forget "$folder"
            exit $BROKEN
        fi
        ;;
    esac
    ;;
look)
    folder=$1
    if [ ! -d "$folder" ]; then
        echo state=absent
        exit 0
    fi
    job=$(number "$folder")
    if [ -z "$job" ] && ended "$folder"; then
        echo state=ended
    elif [ -z "$job" ]; then
        echo state=prepared
    else
        printf 'state=running\njob=%s\nnow=%s\n' "$job" "$(date +%Y-%m-%dT%H:%M:%S)"
        said=$(scontrol show job -o "$job" 2>&1)
        printf 'scontrol=%s\n' "$(printf %s "$said" | tr '\n' ' ')"
        case $said in # who cancelled it, and a job that the controller no longer has, accounting alone knows
        *JobState=CANCELLED* | *"Invalid job id"*)
            printf 'sacct=%s\n' "$(sacct -X -n -P -j "$job" -o JobIDRaw,State,ExitCode,NodeList,Timelimit,Start,End 2>&1 | tail -n 1)"
            ;;
        esac
        case $said in
        *JobState=PENDING* | *JobState=CONF* | *JobState=RUN* | *JobState=COMPLETING* | *JobState=S* | *JobState=RE*) ;;
        *JobState=* | *"Invalid job id"*) forget "$folder" ;;
        esac
    fi
    [ ! -s "$folder/log" ] || printf 'last=%s\n' "$(tail -n 1 "$folder/log" | head -c 600)"
    for fact in exit unreached given_up seen port; do
        [ ! -f "$folder/$fact" ] || printf '%s=%s\n' "$fact" "$(cat "$folder/$fact")"
    done
    [ ! -f "$folder/late" ] || echo late=1
    [ ! -f "$folder/login" ] || echo "waited=$(($(date +%s) - $(stat -c %Y "$folder/login")))"
    [ ! -f "$folder/begun" ] || echo "queued=$(($(stat -c %Y "$folder/begun") - $(stat -c %Y "$folder/login")))"
    ;;
lines)
    folder=$1 from=$(($2 + 1)) waited=0
    until [ -e "$folder/begun" ]; do
        if [ "$waited" -ge $PENDING_S ] || ended "$folder"; then
            [ ! -f "$folder/log" ] || exec tail -c "+$from" "$folder/log"
            exit 0
        fi
        sleep 1
        waited=$((waited + 1))
    done
    # Its processes are elsewhere: what `tail` waits for is a process of this machine that watches for their end. It is
    # no child of tail's, which would keep it as a zombie, and it goes where tail has gone.
    watcher=$( (watch "$folder" $$) >/dev/null 2>&1 & echo $!)
    exec tail -c "+$from" -s 1 -f "--pid=$watcher" "$folder/log"
    ;;
stop)
    folder=$1 name=$(basename "$1") grace=$2 waited=0
    until scancel --user="$(id -un)" --name="$name" && ! active "$folder"; do
        [ "$waited" -lt "$((grace + 30))" ] || exit $BROKEN
        sleep 2
        waited=$((waited + 2))
    done
    forget "$folder"
    ;;
check)
    for tool in sbatch squeue scontrol scancel tail; do command -v "$tool" >/dev/null || echo "missing=$tool"; done
    printf 'kernel=%s\narchitecture=%s\nhome=%s\n' "$(uname -r)" "$(uname -m)" "$HOME"
    printf 'slurm=%s\n' "$(sbatch --version 2>/dev/null)"
    if said=$(scontrol ping 2>&1); then echo runtime=ok; else echo runtime=failed; fi
    printf 'info=%s\n' "$(printf %s "$said" | tr '\n' ' ')"
    printf 'accounting=%s\n' "$(sacct -X -n -P -o JobIDRaw -S now 2>&1 | tail -n 1)"
    sinfo --noheader --format='partition=%R %a' 2>/dev/null | sort -u
    df -Pk "$HOME" 2>/dev/null | awk -v place="$HOME" 'NR == 2 {print "free_kib=" $4 " " place}'
    exit 0
    ;;
*) exit 64 ;;
esac
