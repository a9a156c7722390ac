# Makes the repository of a task in $1, as images of public data sets have it: at its base, with its future still inside.
# Beside this file: repo/ (the base), fix/ and hidden/ (what came after it). The same commit in every run.
set -e
here=$(cd "$(dirname "$0")" && pwd)
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Robin GIT_AUTHOR_EMAIL=robin@example.org GIT_COMMITTER_NAME=Robin GIT_COMMITTER_EMAIL=robin@example.org
mkdir -p "$1"
cd "$1"
git init -q -b main .
git config core.fileMode false
git config user.name Robin
git config user.email robin@example.org
cp -R "$here/repo/." .
export GIT_AUTHOR_DATE='2024-03-01T09:00:00+0000' GIT_COMMITTER_DATE='2024-03-01T09:00:00+0000'
git add -A
git commit -q -m 'Everything up to the issue'
base=$(git rev-parse HEAD)
cp -R "$here/fix/." .
cp -R "$here/hidden/." .
export GIT_AUTHOR_DATE='2024-03-08T09:00:00+0000' GIT_COMMITTER_DATE='2024-03-08T09:00:00+0000'
git add -A
git commit -q -m 'Resolve the issue'
git tag next
git remote add origin https://git.example.org/task.git
git update-ref refs/remotes/origin/main HEAD
git reset -q --hard "$base"
