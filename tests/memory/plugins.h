/* SPDX-License-Identifier: Apache-2.0 */
/* plugins.h - `local` and the optimizers as plugins linked into the test. */
#ifndef MEMORY_PLUGINS_H
#define MEMORY_PLUGINS_H

/* Register both; once a program. */
void memory_register_plugins(void);

#endif
