#ifndef WIRE_BEAT_H
#define WIRE_BEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One beat, the value of the key `heartbeat`:
 *   {"Ts":1746439200123,"Pid":7,"StepInFlight":true}
 * Pure.
 */
#define BEAT_JSON_SIZE 80

/* With a NUL; returns the length. */
size_t beat_json(int64_t unix_ms, int pid, bool step_in_flight, char out[BEAT_JSON_SIZE]);

/* Gives one, behind which there may be other text, another time. False when that does not take as
   many digits: then nothing was done. */
bool beat_set_time(char *json, int64_t unix_ms);

#endif
