;; SPDX-License-Identifier: Apache-2.0
;; optimizer.clj - optimizers as data, for kvstore/set-optimizer: {:name "sgd" :params {…}}.
;;
;; Parameters are those that `kvstore info NAME` lists, as keywords with - or _; what isn't given has
;; its default there. A parameter that doesn't exist is refused when the optimizer is set.
(ns org.apache.clojure-mxnet.optimizer)

(defn create
  "The optimizer of that name. Options beside parameters: :lr-mult and :wd-mult (key -> number), :names
  (key -> name), :schedule ([name params])."
  ([name] (create name {}))
  ([name params] (create name params {}))
  ([name params options] (assoc options :name name :params params)))

(defmacro ^:private def-optimizers [& symbols-and-names]
  `(do ~@(for [[symbol name] (partition 2 symbols-and-names)]
           `(defn ~symbol
              ~(str "The optimizer " name ".")
              ([] (create ~name))
              ([params#] (create ~name params#))))))

(def-optimizers
  sgd "sgd", nag "nag", signum "signum", adam "adam", adamw "adamw", adabelief "adabelief", adamax "adamax",
  nadam "nadam", lamb "lamb", lans "lans", lars "lars", ada-grad "adagrad", group-ada-grad "groupadagrad",
  ada-delta "adadelta", rms-prop "rmsprop", ftrl "ftrl", ftml "ftml", dcasgd "dcasgd")
