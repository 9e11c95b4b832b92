#ifndef TESTS_SUPPORT_REDIS_USER_H
#define TESTS_SUPPORT_REDIS_USER_H

#include <hiredis/hiredis.h>
#include <stddef.h>

/*
 * The Redis user of docs/redis.md: its line `ACL SETUSER …`, taken from there, so that what is promised
 * and what is tested cannot differ.
 */
#define REDIS_USER "sandbox-agent"
#define REDIS_USER_LOGIN "sandbox-agent:PASSWORD@"

/* The line's words behind the user's name, how many there are; owned by nobody else, to be freed
   with redis_user_free_rules. */
char **redis_user_rules(size_t *count);
void redis_user_free_rules(char **rules, size_t count);

/* Makes a user of this name by that line, all but the rule `without` (NULL: all). */
void redis_user_make(redisContext *redis, const char *name, const char *without);

#endif
