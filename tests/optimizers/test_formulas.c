/* SPDX-License-Identifier: Apache-2.0 */
/* test_formulas.c - every optimizer in float64 against its formula, written down once more as a plain
 * loop over one array. The golden cases hold float32. */
#include "rig.h"

#include "kt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N       37
#define N_STEPS 5

/* What each formula gets: the gradient after rescaling and clipping, and the state it keeps. */
typedef struct model {
    double w[N], g[N]; /* g: rescaled and clipped */
    double raw[N];     /* only rescaled */
    double a[N], b[N], c[N];
    double product;
    double t;
} model_t;

static const double lr = 0.02, wd = 0.03, clip = 0.6, rescale = 0.5;

static double sign(double x)
{
    return (x > 0) - (x < 0);
}

static double norm(const double *x)
{
    double sum = 0;

    for (int i = 0; i < N; i++) {
        sum += x[i] * x[i];
    }
    return sqrt(sum);
}

#define EACH for (int i = 0; i < N; i++)

static void sgd_model(model_t *m)
{
    EACH
    {
        m->a[i] = 0.9 * m->a[i] - lr * (m->g[i] + wd * m->w[i]);
        m->w[i] += m->a[i];
    }
}

static void nag_model(model_t *m)
{
    EACH
    {
        double step = lr * (m->g[i] + wd * m->w[i]);

        m->a[i] = 0.9 * m->a[i] - step;
        m->w[i] += 0.9 * m->a[i] - step;
    }
}

static void signum_model(model_t *m)
{
    EACH
    {
        m->a[i] = 0.9 * m->a[i] - 0.1 * (m->g[i] + wd * m->w[i]);
        m->w[i] = (1 - lr * 0.2) * m->w[i] + lr * sign(m->a[i]);
    }
}

static void signsgd_model(model_t *m)
{
    EACH
    {
        m->w[i] = (1 - lr * (wd + 0.2)) * m->w[i] - lr * sign(m->g[i]);
    }
}

static void dcasgd_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];
        double s = g + 0.3 * g * g * (m->w[i] - m->b[i]);

        m->b[i] = m->w[i];
        m->a[i] = 0.9 * m->a[i] - lr * s;
        m->w[i] += m->a[i];
    }
}

static void test_model(model_t *m)
{
    EACH
    {
        m->w[i] -= lr * (m->raw[i] + wd * m->w[i]);
    }
}

static double rest(double beta)
{
    return 1.0f - (float)beta;
}

static double eta(const model_t *m)
{
    return lr * sqrt(1 - pow(0.99, m->t)) / (1 - pow(0.8, m->t));
}

static void adam_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];

        m->a[i] = 0.8 * m->a[i] + rest(0.8) * g;
        m->b[i] = 0.99 * m->b[i] + rest(0.99) * g * g;
        m->w[i] -= eta(m) * m->a[i] / (sqrt(m->b[i]) + 1e-3);
    }
}

static void adamw_model(model_t *m)
{
    EACH
    {
        m->a[i] = 0.8 * m->a[i] + 0.2 * m->g[i];
        m->b[i] = 0.99 * m->b[i] + 0.01 * m->g[i] * m->g[i];
        m->w[i] -= eta(m) * (m->a[i] / (sqrt(m->b[i]) + 1e-3) + wd * m->w[i]);
    }
}

static void adabelief_model(model_t *m)
{
    EACH
    {
        double g = fmax(fmin(m->raw[i] + wd * m->w[i], clip), -clip);

        m->a[i] = 0.8 * m->a[i] + 0.2 * g;
        m->b[i] = 0.99 * m->b[i] + 0.01 * (m->a[i] - g) * (m->a[i] - g) + 1e-3;
        m->w[i] -= eta(m) * m->a[i] / (sqrt(m->b[i]) + 1e-3);
    }
}

static void adamax_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];

        m->a[i] = 0.8 * m->a[i] + 0.2 * g;
        m->b[i] = fmax(0.99 * m->b[i], fabs(g));
        m->w[i] -= lr / (1 - pow(0.8, m->t)) * m->a[i] / (m->b[i] + 1e-3);
    }
}

static void nadam_model(model_t *m)
{
    double now = 0.8 * (1 - 0.5 * pow(0.96, m->t * 0.1));
    double next = 0.8 * (1 - 0.5 * pow(0.96, (m->t + 1) * 0.1));

    m->product *= now;
    EACH
    {
        double g = m->g[i] + wd * m->w[i];

        m->a[i] = 0.8 * m->a[i] + 0.2 * g;
        m->b[i] = 0.99 * m->b[i] + 0.01 * g * g;
        m->w[i] -= lr *
                   ((1 - now) * g / (1 - m->product) + next * m->a[i] / (1 - m->product * next)) /
                   (sqrt(m->b[i] / (1 - pow(0.99, m->t))) + 1e-3);
    }
}

static void adagrad_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];

        m->a[i] += g * g;
        m->w[i] -= lr * g / (sqrt(m->a[i]) + 1e-3);
    }
}

/* The shape is (N,): each row has one element. */
static void groupadagrad_model(model_t *m)
{
    EACH
    {
        m->a[i] += m->g[i] * m->g[i];
        m->w[i] -= lr * m->g[i] / (sqrt(m->a[i]) + 1e-3);
    }
}

static void adadelta_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];
        double d;

        m->a[i] = 0.8 * m->a[i] + 0.2 * g * g;
        d = sqrt(m->b[i] + 1e-3) / sqrt(m->a[i] + 1e-3) * g;
        m->b[i] = 0.8 * m->b[i] + 0.2 * d * d;
        m->w[i] -= lr * d;
    }
}

static void rmsprop_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];

        m->a[i] = 0.8 * m->a[i] + 0.2 * g * g;
        m->w[i] = fmax(fmin(m->w[i] - lr * g / (sqrt(m->a[i]) + 1e-3), 0.5), -0.5);
    }
}

static void centered_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];

        m->a[i] = 0.8 * m->a[i] + 0.2 * g * g;
        m->b[i] = 0.8 * m->b[i] + 0.2 * g;
        m->c[i] = 0.7 * m->c[i] - lr * g / sqrt(m->a[i] - m->b[i] * m->b[i] + 1e-3);
        m->w[i] += m->c[i];
    }
}

static void ftrl_model(model_t *m)
{
    EACH
    {
        double g = m->g[i];

        m->a[i] += g - (sqrt(m->b[i] + g * g) - sqrt(m->b[i])) * m->w[i] / lr;
        m->b[i] += g * g;
        m->w[i] = fabs(m->a[i]) <= 0.1
                      ? 0
                      : (sign(m->a[i]) * 0.1 - m->a[i]) / ((0.5 + sqrt(m->b[i])) / lr + wd);
    }
}

static void ftml_model(model_t *m)
{
    EACH
    {
        double g = m->g[i] + wd * m->w[i];
        double d;

        m->a[i] = 0.99 * m->a[i] + 0.01 * g * g;
        d = (1 - pow(0.8, m->t)) / lr * (sqrt(m->a[i] / (1 - pow(0.99, m->t))) + 1e-3);
        m->b[i] = 0.8 * m->b[i] + 0.2 * g - (d - 0.8 * m->c[i]) * m->w[i];
        m->w[i] = -m->b[i] / d;
        m->c[i] = d;
    }
}

static void lars_model(model_t *m)
{
    double ratio = 0.5 * norm(m->w) / (norm(m->raw) + wd * norm(m->w) + 1e-3);

    EACH
    {
        m->a[i] = 0.9 * m->a[i] - lr * ratio * (m->g[i] + wd * m->w[i]);
        m->w[i] += m->a[i];
    }
}

static void lamb_model(model_t *m)
{
    double u[N];
    double ratio;

    EACH
    {
        m->a[i] = 0.8 * m->a[i] + rest(0.8) * m->g[i];
        m->b[i] = 0.99 * m->b[i] + rest(0.99) * m->g[i] * m->g[i];
        u[i] = m->a[i] / (1 - pow(0.8, m->t)) / (sqrt(m->b[i] / (1 - pow(0.99, m->t))) + 1e-3) +
               wd * m->w[i];
    }
    ratio = fmin(norm(m->w), 1.5) / norm(u);
    EACH
    {
        m->w[i] -= lr * ratio * u[i];
    }
}

static void lans_model(model_t *m)
{
    double along_mean[N], along_grad[N];
    double raw_norm = norm(m->raw);
    double weight_norm = fmin(norm(m->w), 1.5);
    double mean_ratio, grad_ratio;

    EACH
    {
        double g = fmax(fmin(m->raw[i] / raw_norm, clip), -clip);
        double divisor;

        m->a[i] = 0.8 * m->a[i] + rest(0.8) * g;
        m->b[i] = 0.99 * m->b[i] + rest(0.99) * g * g;
        divisor = sqrt(m->b[i] / (1 - pow(0.99, m->t))) + 1e-3;
        along_mean[i] = m->a[i] / (1 - pow(0.8, m->t)) / divisor + wd * m->w[i];
        along_grad[i] = g / divisor + wd * m->w[i];
    }
    mean_ratio = weight_norm / norm(along_mean);
    grad_ratio = weight_norm / norm(along_grad);
    EACH
    {
        m->w[i] -= lr * 0.8 * mean_ratio * along_mean[i] + lr * 0.2 * grad_ratio * along_grad[i];
    }
}

#define MOMENTUM RIG_REAL("momentum", 0.9)
#define BETAS    RIG_REAL("beta1", 0.8), RIG_REAL("beta2", 0.99), RIG_REAL("epsilon", 1e-3)
#define BOUND    RIG_REAL("upper_bound", 1.5)

static const struct formula {
    const char *name;
    kvs_param_t own[6]; /* up to the first without a name */
    void (*model)(model_t *m);
    int no_wd;
} formulas[] = {
    {"sgd", {MOMENTUM}, sgd_model, 0},
    {"nag", {MOMENTUM}, nag_model, 0},
    {"signum", {MOMENTUM, RIG_REAL("wd_lh", 0.2)}, signum_model, 0},
    {"signsgd", {RIG_REAL("wd_lh", 0.2)}, signsgd_model, 0},
    {"dcasgd", {MOMENTUM, RIG_REAL("lamda", 0.3)}, dcasgd_model, 0},
    {"test", {{0}}, test_model, 0},
    {"adam", {BETAS}, adam_model, 0},
    {"adamw", {BETAS}, adamw_model, 0},
    {"adabelief", {BETAS}, adabelief_model, 0},
    {"adamax", {BETAS}, adamax_model, 0},
    {"nadam", {BETAS, RIG_REAL("schedule_decay", 0.1)}, nadam_model, 0},
    {"adagrad", {RIG_REAL("epsilon", 1e-3)}, adagrad_model, 0},
    {"groupadagrad", {RIG_REAL("epsilon", 1e-3)}, groupadagrad_model, 1},
    {"adadelta", {RIG_REAL("rho", 0.8), RIG_REAL("epsilon", 1e-3)}, adadelta_model, 0},
    {"rmsprop",
     {RIG_REAL("rho", 0.8), RIG_REAL("epsilon", 1e-3), RIG_REAL("clip_weights", 0.5)},
     rmsprop_model,
     0},
    {"rmsprop",
     {RIG_REAL("rho", 0.8), RIG_REAL("momentum", 0.7), RIG_REAL("epsilon", 1e-3),
      RIG_BOOL("centered", 1)},
     centered_model,
     0},
    {"ftrl", {RIG_REAL("lamda1", 0.1), RIG_REAL("beta", 0.5)}, ftrl_model, 0},
    {"ftml", {BETAS}, ftml_model, 0},
    {"lars", {MOMENTUM, RIG_REAL("eta", 0.5), RIG_REAL("epsilon", 1e-3)}, lars_model, 0},
    {"lamb", {BETAS, BOUND}, lamb_model, 0},
    {"lans", {BETAS, BOUND}, lans_model, 0},
};

static kvs_opt_t *opt_of(const struct formula *formula)
{
    kvs_param_t params[10] = {RIG_REAL("learning_rate", lr), RIG_REAL("clip_gradient", clip),
                              RIG_REAL("rescale_grad", rescale),
                              RIG_REAL("wd", formula->no_wd ? 0 : wd)};
    size_t n = 4;

    for (size_t i = 0; formula->own[i].name != NULL; i++) {
        params[n++] = formula->own[i];
    }
    return rig_opt(formula->name, params, n);
}

static void run_formula(const struct formula *formula)
{
    const int64_t shape[] = {N};
    rig_key_t key = rig_key(0, KVS_DTYPE_float64, shape, 1);
    kvs_opt_t *opt = opt_of(formula);
    model_t model = {.product = 1};
    double *weight = key.weight;
    double worst = 0;

    EACH
    {
        weight[i] = model.w[i] = model.b[i] = cos(i) * 0.4;
    }
    if (strcmp(formula->name, "dcasgd") != 0) {
        memset(model.b, 0, sizeof(model.b)); /* only dcasgd's begins as the weight */
    }
    for (int step = 1; opt != NULL && step <= N_STEPS; step++) {
        double grad[N];

        EACH
        {
            grad[i] = 2 * sin(i * 7 + step);
            model.raw[i] = rescale * grad[i];
            model.g[i] = fmax(fmin(model.raw[i], clip), -clip);
        }
        model.t = step;
        formula->model(&model);
        KT_OK(rig_update(opt, &key, grad, 0, NULL));
        EACH
        {
            worst = fmax(worst, fabs(weight[i] - model.w[i]));
        }
    }
    if (!(worst < 1e-9)) {
        printf("\n  %s is off by %g", formula->name, worst);
    }
    KT_TRUE(worst < 1e-9);
    kvs_opt_free(opt);
    rig_key_release(&key);
}

static void float64_updates_follow_the_formulas(void)
{
    for (size_t i = 0; i < sizeof(formulas) / sizeof(formulas[0]); i++) {
        run_formula(&formulas[i]);
    }
}

static void every_optimizer_has_a_formula_here(void)
{
    for (size_t i = 0; rig_optimizer_at(i) != NULL; i++) {
        int found = 0;

        for (size_t j = 0; j < sizeof(formulas) / sizeof(formulas[0]); j++) {
            found |= strcmp(rig_optimizer_at(i)->name, formulas[j].name) == 0;
        }
        KT_TRUE(found);
    }
}

static const kt_test_t tests[] = {
    KT_TEST(float64_updates_follow_the_formulas),
    KT_TEST(every_optimizer_has_a_formula_here),
};

int main(int argc, char **argv)
{
    rig_start();
    return kt_run("formulas", tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
}
