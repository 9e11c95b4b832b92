#ifndef WIRE_HEARTBEAT_JSON_H
#define WIRE_HEARTBEAT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One beat, the value of the key `heartbeat`:
 *   {"Ts":1746439200123,"Pid":7,"StepInFlight":true}
 * Pure.
 */
#define HEARTBEAT_JSON_SIZE 80

/* With a NUL; returns the length. */
size_t heartbeat_json(int64_t unix_ms, int pid, bool step_in_flight, char out[HEARTBEAT_JSON_SIZE]);

/* Gives one, behind which there may be other text, another time. False when that does not take as
   many digits: then nothing was done. */
bool heartbeat_json_set_time(char *json, int64_t unix_ms);

#endif
