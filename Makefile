# Bare `make` explains every target.
.DEFAULT_GOAL := help
.PHONY: help setup jars demo live test quick lowest newest check broker record record-tests bench chaos plain-clients nightly lines thorough golden mutants faults docs wheel doors clean

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.set-up
LIGHT := $(VENV)/.set-up-light

help: ## explain every target
	@echo "apportion: which member of a Kafka consumer group owns which partition?"
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

setup: $(STAMP) jars ## make .venv with the package and all extras, fetch the jars (done by the others too)

$(STAMP): pyproject.toml constraints.txt
	@python3 -c 'import sys; sys.exit("Python 3.11 or newer is needed, found " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@echo "== Python packages into $(VENV)"
	@test -x $(PY) || python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	@touch $(STAMP)

jars: $(STAMP) ## fetch Apache Kafka, and what Spark needs for Kafka, Delta and S3, through Maven into .jars
	@$(PY) -m apportion.testing.jars

demo: $(STAMP) ## a recorded real cluster: every group, its lag, its rebalances, and what each strategy would have done
	@$(VENV)/bin/apportion demo --spark

live: $(if $(wildcard $(STAMP)),$(STAMP),$(LIGHT)) ## a broker, three groups that live and their page, at http://127.0.0.1:9200/ until Ctrl-C
	@$(PY) -m tools.live

$(LIGHT): pyproject.toml constraints.txt
	@echo "== Python packages into $(VENV): the server alone"
	@test -x $(PY) || python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[serve]'
	@touch $(LIGHT)

test: setup check ## every check and every test, with a real broker and real Spark
	@$(PY) -m compileall -q src  # as pip does for users; a thousand tests start the command line or a worker of Spark's
	@$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder  # brokers are mostly waited for: more at a time than two cores, but with 4 sessions of 6 s end by chance

ROOM ?=

quick: $(STAMP) ## an answer in two minutes, without broker, Java, Spark and browser: make quick ROOM=solvers for one package
	@$(PY) -m pytest -q --quick $(if $(ROOM),--room $(ROOM)) -n 2 --dist loadfile --no-loadscope-reorder

PYTHON ?= python3
SEED ?= 1
SIZE ?=

lowest: setup ## the tests with the lowest version of everything that the ranges allow: PYTHON=python3.12 SIZE=--quick or --live
	@$(PY) -m tools.ranges lowest --python $(PYTHON) $(SIZE)

newest: setup ## the same with the newest versions that there are today
	@$(PY) -m tools.ranges newest --python $(PYTHON) $(SIZE)

check: $(STAMP) ## format, lint, types and layers
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

broker: setup ## a real Kafka broker on this machine until Ctrl-C
	@$(PY) -m apportion.testing.broker

record: setup ## run the scripted workload on a real broker and write the demo's dump anew
	@$(PY) -m tools.record
	@$(PY) -m tools.recording.as_text

record-tests: setup ## record what tests read of a real broker again: streams and share groups
	@$(PY) -m tools.record_task_groups

bench: setup ## compare with Kafka's own assignors, franz-go and kafka-python side by side; writes BENCHMARKS.md
	@$(PY) -m bench

chaos: setup ## members and tasks join, leave, freeze and die for a long while on a real broker
	@APPORTION_CHAOS=long APPORTION_THOROUGH=1 APPORTION_GOVERNED_CHAOS_S=70 $(PY) -m pytest tests/clients/test_chaos.py tests/clients/test_chaos_acting.py tests/broker/test_governed_cluster.py
	@$(PY) -m tests.clients.freezing --runs 30

plain-clients: setup ## what kafka-python, aiokafka and confluent-kafka do in trouble without apportion, for docs/trouble.md
	@$(PY) -m bench.plain_clients

nightly: setup ## simulate 100,000 faults, then small worlds, each fault at each request and each order of messages: make nightly SEED=1
	@PYTHONHASHSEED=0 $(PY) -m apportion.testing.simulation --faults 100000 --seed $(SEED)
	@PYTHONHASHSEED=0 $(PY) -m apportion.testing.simulation --small 60
	@PYTHONHASHSEED=0 $(PY) -m apportion.testing.simulation --orders 4

LINES := */apportion/clients/*,*/kafka/coordinator/*,*/kafka/consumer/fetcher.py,*/kafka/producer/*

lines: setup ## which lines of our clients/ and of kafka-python 2,000 faults of such a night run: make lines SEED=1
	@COVERAGE_FILE=.pytest_cache/lines PYTHONHASHSEED=0 $(VENV)/bin/coverage run --concurrency=greenlet --include='$(LINES)' \
		-m apportion.testing.simulation --faults 2000 --seed $(SEED)
	@COVERAGE_FILE=.pytest_cache/lines $(VENV)/bin/coverage report --show-missing

thorough: setup ## the bounded tests at their full sizes, for hours; what came of it is kept in tests/thorough.json
	@$(PY) -m tools.thorough

golden: $(STAMP) ## write the outputs that tests hold as files anew; git diff shows what changed
	@$(PY) -m tools.describe_schema
	@$(PY) -m tests.cli.test_transcripts
	@$(PY) -m tests.serve.test_golden

mutants: setup ## let mutmut change ROOM one place at a time, and see what its own tests notice: make mutants ROOM=solvers
	@PYTEST_ADDOPTS='--quick --own $(ROOM)' $(VENV)/bin/mutmut run 'apportion.$(ROOM).*'
	@$(VENV)/bin/mutmut results

faults: setup ## put each known fault back, one at a time, and see its test fail
	@$(PY) -m tools.faults
	@APPORTION_THOROUGH=1 $(PY) -m pytest -q -n 2 tests/testing/test_planted_faults.py

docs: setup ## the documentation as a site in site/
	@$(VENV)/bin/mkdocs build --strict

wheel: $(STAMP) ## wheel and sdist in dist/
	@$(PY) -m build

doors: wheel ## how long a stranger waits for a first true sentence, from the wheel and over MCP
	@$(PY) -m tools.doors dist/*.whl

clean: ## remove what the targets made
	@rm -rf dist build site .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
