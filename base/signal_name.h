#ifndef BASE_SIGNAL_NAME_H
#define BASE_SIGNAL_NAME_H

/* "SIGTERM"; "another signal" for one that has no name here, such as a real-time signal. */
const char *signal_name(int signal);

#endif
