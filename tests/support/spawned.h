#ifndef TESTS_SUPPORT_SPAWNED_H
#define TESTS_SUPPORT_SPAWNED_H

#include "agent/process/spawn.h"

/* Starts a program and returns its pid when it is being executed. Whatever fails fails the test. */
pid_t spawned(const struct spawn_defaults *defaults, const struct spawn_request *request);

#endif
