#!/bin/sh
# Stands in for the operator: it runs until it is told to end.
exec sleep 600
