# What makes a box a machine of a Slurm cluster, before its sshd starts. Its folder is $box; words in braces are filled in.
hostname {name}
mount --bind {shared}/home /home
mount --bind "$box/etc/hosts" /etc/hosts
mount --bind {shared}/etc /etc/slurm
mkdir -p /run/munge /run/slurm/state /run/slurm/spool /run/slurm/log
munged --force --key-file={shared}/munge.key --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \
    --log-file=/run/munge/munged.log --seed-file=/run/munge/munged.seed
{daemon}
