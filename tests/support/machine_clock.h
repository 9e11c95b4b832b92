#pragma once

/*
 * A clock for promises in milliseconds, which a busy machine cannot keep in real time. It advances
 * while a thread of the test that does nothing but work has a processor. On a quiet machine a
 * millisecond of this clock takes a millisecond. If other programs get five sixths of the
 * processors, it takes six, which is also what the agent needs for a millisecond of work.
 *
 *   double begin_ms = machine_clock_ms();
 *   …
 *   assert_true(machine_clock_ms() - begin_ms <= 100);
 *
 * It never runs ahead of wait_exact_ms(), which is the clock for the least that something takes.
 * The first call starts the thread, which works until the program ends: only tests that run alone
 * (tests/timed) may call this. Each process of TEST_OVERLAP has a thread of its own, so that more
 * than two of them slow the clock down on a machine with two processors.
 */
double machine_clock_ms(void);
