"""Whole installations in one thread, on a seed: processes, network, database, store and clock.

The engine runs unmodified. Everything it takes from its surroundings is played by
this package, and every choice (who runs next, how long a message takes, which one
is lost, who dies when) is drawn from one number. The same number gives the same
run, so a failure is replayed by one command, which every failure prints:

    python -m lakebed.testing.simulation SCENARIO --seed N [--trace FILE]

How it is built, from the bottom:

    chance, loop, clock, trace  one random stream, an event loop whose time jumps, clocks that are wrong, what happened
    history                     what the clients asked for and what they were told
    network                     requests that are slow, lost, unanswered, or arrive long after they were given up
    database, kv, objects       what lies at the other end, and the ports over it that one process holds
    process                     an engine, wired as the real one is, that can be killed or paused at any await
    truth                       what every branch really shows, step by step
    laws, *_laws                what must never happen, judged at every write as it is applied
    answers                     whether what a client was told was true
    world, stage                all of it put together; clients at work, and what befalls their processes
    clients, *_play, rest       what they do, and what must hold when they have gone
    scenarios, run              the mixes of work and weather that the tests run

The truth is read from the database itself, at every write that is applied: what a
branch shows at that step is computed from its record, its rows and its trees by
code that shares nothing with the readers of the engine. Each answer a client gets
is then held against what was true at some step between its question and its answer.
"""
