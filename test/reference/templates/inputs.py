"""Every filter that takes several items, loops and `in`, over every kind of input: what is empty, what fails, and when."""

INPUTS = ["none", "missing", "false", "true", "0", "3", "0.0", "2.5", "''", "'ab'", "[]", "[1, 0, 1]", "()", "(2, 1)", "{}", "{'b': 1, 'a': 2}",
          "range(0)", "range(3)", "['b', 'A', '']", "[none, missing]", "[{'x': 1}, {'x': 0}, {}]", "[{'x': {'y': 2}}]", "([] | map('upper'))",
          "('ab' | safe)", "{'x': 1}.items()", "[[1, 2], [3]]"]

# The filter alone, taken apart, and what stands behind it: lazy ones fail only when they are read.
FILTERS = ["select", "select('odd')", "select('nope')", "reject", "reject('odd')", "selectattr('x')", "selectattr('x', 'eq', 1)", "selectattr",
           "rejectattr('x')", "rejectattr('x.y')", "rejectattr", "map('upper')", "map('nope')", "map(attribute='x')", "map(attribute='x', default=7)",
           "map(attribute='x.y', default=7)", "map", "unique", "unique(attribute='x')", "batch(2)", "batch(2, 'z')", "slice(2)", "slice(2, 'z')", "items"]
EAGER = ["list", "join", "join('-')", "join('-', attribute='x')", "first", "last", "length", "count", "sum", "sum(start=1)", "sum(attribute='x')",
         "sort", "sort(attribute='x')", "sort(reverse=true)", "min", "max", "min(attribute='x')", "groupby('x')", "groupby('x', default=0)", "reverse",
         "dictsort", "wordcount", "tojson", "string", "default('d')", "default('d', true)", "upper", "trim", "replace('a', 'b')", "int", "float",
         "abs", "round", "urlencode", "indent", "title", "striptags", "escape", "truncate(3)", "center(5)", "attr('x')", "format(1)", "wordwrap(2)", "filesizeformat"]

# A generator is printed with its address.
PRINTING = ["wordcount", "string", "default('d')", "default('d', true)", "upper", "trim", "replace('a', 'b')", "title", "escape", "center(5)"]

SOURCES = [f"{{{{ {value} | {name} | list }}}}" for value in INPUTS for name in FILTERS]
SOURCES += [f"{{% set lazy = {value} | {name} %}}made" for value in INPUTS for name in FILTERS]
SOURCES += [f"{{{{ {value} | {name}{' | list' if name == 'reverse' else ''} }}}}" for value in INPUTS for name in EAGER
            if not ("map('upper')" in value and name in PRINTING)]
SOURCES += [f"{{% for item in {value} %}}<{{{{ item }}}}>{{% else %}}empty{{% endfor %}}" for value in INPUTS]
SOURCES += [f"{{{{ 1 in {value} }}}}{{{{ 'a' in {value} }}}}" for value in INPUTS]
SOURCES += [f"{{{{ ({value}) is {test} }}}}" for value in INPUTS
            for test in ["defined", "none", "iterable", "sequence", "mapping", "string", "number", "integer", "float", "boolean", "true", "false", "callable", "sameas none"]]
SOURCES += [f"{{% if {value} | selectattr('x') | list %}}some{{% else %}}none{{% endif %}}" for value in INPUTS]
SOURCES += [f"{{{{ ({value} | select) is defined }}}}{{{{ 'yes' if {value} | select else 'no' }}}}" for value in INPUTS]

# None is a value like others: what stands in for something absent does not stand in for None.
SOURCES += ["{{ {'a': none}.get('a', 'd') }}{{ {}.get('a', none) }}", "{{ missing | default(none) }}", "{{ none | default('d') }}", "{{ 'x' | int(none) }}",
            "{{ 'x' | float(none) }}", "{{ '%(a)s' % {'a': none} }}", "{{ '%s' % none }}", "{{ [1, 2] | join(none) }}", "{{ [1] | sum(start=none) }}",
            "{{ [none] | first }}{{ [none] | last }}{{ [none] | min }}", "{{ 'a' | replace('a', none) }}", "{{ '{}'.format(none) }}{{ '{a}'.format(a=none) }}",
            "{{ [{'a': none}] | map(attribute='a', default='d') | list }}", "{% macro m(a='d') %}{{ a }}{% endmacro %}{{ m(none) }}{{ m() }}",
            "{{ dict(a=none) }}{{ namespace(a=none).a }}", "{{ [none, 1] | groupby('x', default=none) | list }}", "{{ {'a': none}.a | default('d', true) }}"]
