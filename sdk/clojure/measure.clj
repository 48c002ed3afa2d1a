;; SPDX-License-Identifier: Apache-2.0
;; measure.clj - what a call costs: microseconds a push and a pull of a small array, the least of
;; several rounds, and of a call that does nothing but enter the library.
(require '[org.apache.clojure-mxnet.kvstore :as kvstore]
         '[org.apache.clojure-mxnet.ndarray :as ndarray])

(def n-calls 50000)

(defn microseconds-a-call [f]
  (apply min (for [_ (range 12)]
               (let [begun (System/nanoTime)]
                 (dotimes [_ n-calls]
                   (f))
                 (/ (- (System/nanoTime) begun) 1e3 n-calls)))))

(def kv (kvstore/create "local"))
(def a (ndarray/ones [4]))
(def b (ndarray/ones [4]))
(def two-keys ["weight" "bias"])
(def two-arrays [a b])
(kvstore/init kv two-keys two-arrays)

(doseq [[what f] [["rank" #(kvstore/rank kv)]
                  ["push, one key" #(kvstore/push kv "weight" a)]
                  ["pull, one key" #(kvstore/pull kv "weight" a)]
                  ["push, two keys" #(kvstore/push kv two-keys two-arrays)]]]
  (println (format "%-16s %6.2f us" what (microseconds-a-call f))))
(kvstore/close kv)
