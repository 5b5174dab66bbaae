#!/bin/sh
# Stands in for the operator: it runs until a signal ends it.
exec sleep 600
