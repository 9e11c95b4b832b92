#pragma once

/*
 * Reads an environment variable that configures one of the programs. Only the code that parses
 * options calls it. Values often come from files and Secrets, which end with a line break that
 * belongs to no value, and manifests often have empty variables.
 */

/* Returns the value, which belongs to the environment, or NULL if the variable is not set or empty.
   One line break, LF or CRLF, is removed from its end, in the environment too. */
const char *variable_read(const char *name);
