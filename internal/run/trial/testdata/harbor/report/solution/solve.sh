#!/bin/bash
mkdir report
echo "$TITLE" > report/title.txt
echo "$TOTAL" > report/total.txt
