#ifndef WIRE_HEARTBEAT_JSON_H
#define WIRE_HEARTBEAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The value of the key `heartbeat`:
 *   {"Ts":1746439200123,"Pid":7,"StepInFlight":true}
 * Pure.
 */
#define HEARTBEAT_JSON_SIZE 80 /* of the longest, with a NUL */

/* Writes it with a NUL; returns the length. */
size_t heartbeat_json(int64_t unix_ms, int pid, bool step_in_flight, char out[HEARTBEAT_JSON_SIZE]);

#endif
