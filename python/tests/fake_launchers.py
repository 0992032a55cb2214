"""Commands that start programs on other machines, as scripts that start them on this one."""

# `ssh -T -o BatchMode=yes -- HOST COMMAND`; no host "down" answers.
SSH = """#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" != down ] || { echo "ssh: connect to host down port 22: No route to host" >&2; exit 255; }
echo "$2 $$" >> hosts
exec sh -c "$3"
"""
# `srun --nodelist=NODE … -- COMMAND`
SRUN = """#!/bin/sh
for word; do
  case $word in --nodelist=*) node=${word#--nodelist=};; -*) ;; srun) ;; *) break;; esac
  shift
done
echo "$node $$" >> hosts
exec "$@"
"""
SCONTROL = """#!/bin/sh
[ "$*" = "show node --oneliner n[1-2]" ] || { echo "unexpected: $*"; exit 1; }
echo "NodeName=n1 NodeAddr=127.0.0.1 State=IDLE"
echo "NodeName=n2 NodeAddr=127.0.0.1 State=IDLE"
"""


def launchers_in(folder):
    """The folder, which is made, with `ssh`, `srun` and `scontrol`; each notes in the file `hosts` what it starts."""
    folder.mkdir()
    for name, text in {"ssh": SSH, "srun": SRUN, "scontrol": SCONTROL}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder
