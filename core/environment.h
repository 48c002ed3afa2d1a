/* SPDX-License-Identifier: Apache-2.0 */
/* environment.h - the environment, as far as it may be believed: in secure execution (AT_SECURE: a
 * setuid or setgid program, or one with file capabilities) whoever starts the process must not choose
 * what code it runs. */
#ifndef KVSI_ENVIRONMENT_H
#define KVSI_ENVIRONMENT_H

int kvsi_is_secure(void);
/* The variable's value, or NULL. In secure execution always NULL; that a variable of ours was ignored
 * is logged, once for each. */
const char *kvsi_env(const char *name);

#endif
