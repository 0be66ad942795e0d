#!/bin/bash
grep ERROR server.log > errors.log
