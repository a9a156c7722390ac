#!/bin/sh
# rotate.sh FOLDER KEEP
set -e
folder=$1
keep=$2
for log in $(ls $folder/*.log); do
  number=1
  while [ $number -lt $keep ]; do
    if [ -e $log.$number ]; then
      mv $log.$number $log.$((number + 1))
    fi
    number=$((number + 1))
  done
  mv $log $log.1
  : > $log
done
