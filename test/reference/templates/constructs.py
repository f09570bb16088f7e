"""Small templates, one construct or rule each, and the variables they see."""

VARIABLES = {
    "n": 7, "zero": 0, "neg": -13, "half": 2.5, "tiny": 0.00001, "yes": True, "no": False, "nothing": None,
    "word": "Straße", "text": "The quick  brown\tfox", "lines": "one\n\n two\nthree", "face": "a😀b", "html": "<p class=\"x\">it's & more</p>", "empty": "",
    "list": [4, 2, 9, 2], "names": ["bob", "Alice", "carol", "alice"], "none": [], "nested": [1, [2, [3, 4]], 5],
    "map": {"b": 2, "a": {"x": [1, None, True]}, "C": "é"}, "blank": {}, "odd": {"1": "one", "items": "mine", "keys": 3, "a b": 0},
    "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25, "tags": []}, {"name": "Cid", "age": 30, "tags": ["y", "z"], "city": {"name": "Rome"}}],
}

SOURCES = r"""
{{ n }}{{ half }}{{ yes }}{{ nothing }}{{ list }}{{ map }}
{% set big = 9007199254740993 %}{{ big }} {{ big + 1 }} {{ big * big }} {{ 2 ** 80 }} {{ -big // 7 }} {{ big % 10 }} {{ big / 3 }}
{{ 123456789012345678901234567890 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000_000 }} {{ 3.0 }} {{ .5 is defined }}
{{ 3.10 }} {{ 1e16 }} {{ 123456789.123 }} {{ tiny }} {{ 1e22 }} {{ 100000000000000000000.0 }} {{ -0.0 }} {{ 1/3 }}
{{ 7 / 2 }} {{ 7 // 2 }} {{ 7 % 3 }} {{ neg // 4 }} {{ neg % 4 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 2.0 ** 3 }}
{{ 1e16 // 3.14159 }} {{ 7.5 // -2 }} {{ -7.5 // 2 }} {{ 6.0 // 3 }} {{ 4.0 % -2 }} {{ -4.0 % 2 }} {{ 1.0 // 0.1 }} {{ 1.0 % 0.1 }} {{ 1e300 // 1e-5 }} {{ 0.3 // 0.1 }}
{{ -0.1 | round(-1) }} {{ (-0.1) | round(-1) }} {{ (-0.1) | round(1, 'ceil') }} {{ (-0.4) | round(0, 'ceil') }} {{ 0.4 | round(0, 'floor') }} {{ (-44) | round(-2) }} {{ (-44.0) | round(-2) }}
{{ '%#x|%#X|%#o|%#08x|%-#8x|%#x' % (255, 255, 8, 255, 255, -255) }} {{ '%G %G %g %g %+g' % (1e20, 1e-10, -0.0, 1e400, 0.0) }} {{ '%x' % 2 ** 70 }}
{{ '%x' % 1.0 }}
{{ '%X' % 2.5 }}
{{ '%o' % 2.0 }}
{{ 'aé 😀'.isprintable() }} {{ 'a\n'.isprintable() }} {{ ''.isprintable() }} {{ '\u00a0'.isprintable() }} {{ '\u200b'.isprintable() }}
{{ 1 / 0 }}
{{ n // zero }}
{{ n % 0 }}
{{ yes + yes }} {{ yes * 3 }} {{ -yes }} {{ +yes }} {{ yes == 1 }} {{ yes is sameas true }}
{{ 'ab' * 3 }} {{ 3 * 'ab' }} {{ 'a' * 0 }} {{ 'a' * -1 }} {{ [1, 2] * 2 }} {{ (1,) * 2 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ nothing + 1 }}
{{ missing + 1 }}
{{ 1 + missing }}
{{ 'a' + missing }}
{{ map + map }}
{{ 'a' ~ 1 ~ none ~ [1] ~ missing ~ 2.0 }}
{{ -missing }}
{{ 1 < 2 }} {{ 1 < 2.5 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ (1, 'a') < (1, 'b') }} {{ 'é' > 'z' }} {{ '😀' > 'ﬁ' }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ missing < 1 }}
{{ {} < {} }}
{{ 1 < 3 < 2 }} {{ 1 < 2 < 3 < 4 }} {{ 3 > 2 >= 2 }} {{ 1 == 1.0 == true }}
{{ missing == missing }} {{ missing == none }} {{ missing == '' }} {{ none == false }} {{ '' == none }} {{ [] == () }}
{{ 2 in list }} {{ 3 not in list }} {{ 'qui' in text }} {{ 'b' in map }} {{ 'x' in missing }} {{ '' in '' }} {{ [2] in [[2]] }}
{{ 1 in 'a1' }}
{{ 1 in 5 }}
{{ missing in list }} {{ missing in [missing] }}
{{ not n }} {{ not zero }} {{ not [] }} {{ not missing }} {{ not none and not '' }} {{ not 1 == 2 }}
{{ 0 or 'x' }} {{ '' or none }} {{ 1 and 2 }} {{ [] and 1 }} {{ missing or 'd' }} {{ none and missing.x }} {{ 1 or missing.x.y }}
{{ 'a' if n > 3 else 'b' }}{{ 'a' if n > 30 }}{{ 'x' if no else 'y' if no else 'z' }}{{ ('t' if yes) ~ '!' }}
{{ ('t' if no).x }}
{{ (1, 2) }} {{ (1,) }} {{ () }} {{ 1, }} {{ [] }} {{ {} }} {{ [1, 'a', none, 2.0, (3,)] }} {{ {'a': 1, 2: 'b', none: true} }}
{{ {1: 'a', 1.0: 'b', true: 'c'} }} {{ {'x': 1}['x'] }} {{ {'x': 1}.x }} {{ {(1, 2): 3}[(1, 2)] }} {{ [1, 2,] }}
{{ {[1]: 2} }}
{{ 'it\'s' }} {{ "say \"x\"" }} {{ ['it\'s'] }} {{ ["say \"x\""] }} {{ ['\'"'] }} {{ ['\\'] }} {{ ['\n\t\r\x00\x7f'] }} {{ ['é😀\u200b\xa0\ufeff'] }}
{{ 'a\nb\x41\u00e9\U0001F600\101\q' }} {{ 'x' 'y' "z" }} {{ 'line\
joined' }}
{{ '\x4' }}
{{ list[0] }} {{ list[-1] }} {{ list[1:3] }} {{ list[:-1] }} {{ list[::2] }} {{ list[::-1] }} {{ list[-2:] }} {{ list[10:] }} {{ list[3:1] }} {{ list[2:0:-1] }}
{{ text[0] }} {{ text[-3:] }} {{ text[::-1] }} {{ face[1] }} {{ face[1:] }} {{ face[::-1] }} {{ face[:2] }} {{ text[2:20:5] }} {{ text[100:] }}|
{{ list[9] }}|{{ list['x'] }}|{{ map['nope'] }}|{{ none[0] }}|{{ n[0] }}|{{ n.x }}|{{ none.x }}
{{ list[9].x }}
{{ map.nope.x }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ nothing() }}
{{ map.a.x[2] }} {{ map['a']['x'][0] }} {{ people[2].city.name }} {{ people.0.name }} {{ people[0]['tags'][0] }} {{ odd['1'] }} {{ odd['a b'] }}
{{ list[1.5] }}|{{ list[true] }}|{{ list['0'] }}
{{ list['a':] }}
{{ list[::0] }}
{{ odd.items() }} {{ odd['items'] }} {{ odd.get('items') }} {{ odd['keys'] }} {{ odd['get'] is callable }}
{{ map.get('b') }} {{ map.get('q') }} {{ map.get('q', 5) }} {{ map.keys() }} {{ map.values() | list }} {{ map.items() | list }} {{ map.copy() == map }}
{{ map.pop('b') }}
{{ map.update({'z': 1}) }}
{{ map.clear }}|{{ map.setdefault is defined }}
{{ list.append(1) }}
{{ list.sort() }}
{{ list.index(9) }} {{ list.count(2) }} {{ (1, 2, 1).count(1) }} {{ [1].copy() }}
{{ list.index(99) }}
{{ '  x y '.strip() }}|{{ '  x '.lstrip() }}|{{ ' x  '.rstrip() }}|{{ 'abcxcba'.strip('abc') }}|{{ '\n\nx\n'.strip('\n') }}|{{ 'xx'.strip('x') }}|{{ '\u3000\x85a\xa0'.strip() }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a b c d'.split(' ', 2) }} {{ 'a b c'.split(None, 1) }} {{ 'a b c'.rsplit(None, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a--b'.split('--', maxsplit=1) }}
{{ 'abc'.split('') }}
{{ 'a\nb\r\nc\rd\u2028e\n'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ ''.splitlines() }} {{ '\n'.splitlines() }}
{{ text.startswith('The') }} {{ text.endswith(('dog', 'fox')) }} {{ text.startswith('q', 4) }} {{ ''.startswith('') }} {{ text.endswith('quick', 0, 9) }}
{{ text.startswith(1) }}
{{ text.find('q') }} {{ text.find('z') }} {{ text.rfind('o') }} {{ text.index('b') }} {{ text.find('T', 1) }} {{ face.find('b') }} {{ text.find('') }} {{ text.count('o') }} {{ 'aaaa'.count('aa') }} {{ 'abc'.count('') }}
{{ text.index('zz') }}
{{ text.replace('o', '0') }} {{ text.replace('o', '0', 1) }} {{ 'abc'.replace('', '-') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'abc'.replace('', '-', 2) }} {{ 'x'.replace('x', '') }}|{{ 'a.b'.replace('.', '$&$$1') }}
{{ word.upper() }} {{ word.lower() }} {{ 'ÀÉ'.lower() }} {{ 'hello wORLD'.title() }} {{ 'hELLO wORLD'.capitalize() }} {{ 'aBc'.swapcase() }} {{ "they're bill's".title() }} {{ word.casefold() }}
{{ ', '.join(['a', 'b']) }} {{ ''.join([]) }}| {{ '-'.join('abc') }} {{ '/'.join(map) }}
{{ ', '.join([1, 2]) }}
{{ 'a-b-c'.partition('-') }} {{ 'a-b-c'.rpartition('-') }} {{ 'abc'.partition('-') }} {{ 'abc'.rpartition('x') }}
{{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removesuffix('') }} {{ 'abc'.removeprefix('x') }}
{{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '.') }}|{{ 'x'.center(4, '*') }}|{{ 'ab'.center(5, '*') }}|{{ '7'.zfill(3) }}|{{ '-7'.zfill(4) }}|{{ 'long'.ljust(2) }}|{{ 'a\tb'.expandtabs(4) }}|
{{ 'straße'.capitalize() }} {{ 'ﬁt ﬆ ßa' | title }} {{ 'ǆ Ǆ ǈa' | title }} {{ 'ქართული ენა' | capitalize }} {{ 'ქართული ენა'.title() }} {{ 'ᾠδή ᾳ' | title }} {{ 'ŉ'.title() }} {{ '中a 1b ªc e\u0301a' | title }} {{ '中a 1b'.title() }}
{{ 'Straße'.title().istitle() }} {{ 'ǅa'.istitle() }} {{ 'ქა'.istitle() }} {{ 'Aª'.istitle() }} {{ 'ª'.islower() }} {{ 'Ⓐ'.isupper() }} {{ 'AB'.istitle() }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalnum() }} {{ '12'.isdigit() }} {{ '½'.isnumeric() }} {{ ' '.isspace() }} {{ 'aB'.islower() }} {{ 'AB'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ ''.isalpha() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ 'a1'.isidentifier() }} {{ 'é'.isascii() }}
{{ '{} and {}'.format(1, 'b') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x.name} {y[0]} {z[k]}'.format(x=people[0], y=list, z={'k': 'v'}) }} {{ '{{}}'.format() }} {{ '{!r:>6}'.format('a') }} {{ '{!s}'.format(none) }}
{{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d}|{:+d}|{: d}|{:,}|{:x}|{:#X}|{:b}|{:o}'.format(42, 42, 42, 1234567, 255, 255, 5, 8) }}
{{ '{:.2f}|{:8.3f}|{:e}|{:g}|{:.1%}|{:,.2f}|{:.3}|{:08.2f}'.format(3.14159, 2.5, 12345.678, 0.0001, 0.256, 1234567.891, 'abcdef', -3.14159) }} {{ '{:.0f} {:.0f} {:.1f} {:.2f}'.format(0.5, 1.5, 0.25, 2.675) }}
{{ '{}'.format() }}
{{ '{x}'.format(y=1) }}
{{ '{:d}'.format('a') }}
{{ '%s %d %5.2f %r %%' % ('a', 3.9, 2.345, 'b') }} {{ '%s' % 5 }} {{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%-5s|%5s|%05d|%x|%X|%o|%e|%g|%+d' % ('a', 'b', 42, 255, 255, 8, 12345.678, 0.00001, 3) }} {{ '%s' % [1] }} {{ '%s' % missing }}|
{{ '%d' % 'a' }}
{{ '%s %s' % 'a' }}
{{ 'a' % 'b' }}
{{ '%s' | format('x') }} {{ '%(a)s' | format(a=1) }} {{ '%s %s' | format(1, none) }}
{{ text | length }} {{ face | length }} {{ list | count }} {{ map | length }} {{ missing | length }} {{ (1, 2) | length }} {{ range(5) | length }}
{{ n | length }}
{{ none | count }}
{{ text | upper }} {{ n | lower }} {{ text | capitalize }} {{ 'a-b (c d) [e' | title }} {{ 'ABC dEF' | title }} {{ missing | upper }}|
{{ '  x ' | trim }}|{{ 'xyx' | trim('x') }}|{{ list | trim }}|{{ none | trim }}|{{ missing | trim }}|{{ '\n a \n' | trim }}|
{{ text | replace('o', '0') }} {{ text | replace('o', '0', 1) }} {{ n | replace('7', 'x') }} {{ 'aaa' | replace('a', 'b', count=2) }}
{{ missing | default('d') }} {{ none | default('d') }} {{ none | default('d', true) }} {{ '' | d('e', boolean=true) }} {{ 0 | default(1) }} {{ map.q | default(map.b) }} {{ missing | default }}|{{ missing.x | default('deep') }}
{{ list | join }} {{ list | join(', ') }} {{ people | join('; ', attribute='name') }} {{ [1, [2], none] | join('-') }} {{ [] | join(',') }}| {{ 'abc' | join('.') }} {{ map | join }}
{{ list | first }} {{ list | last }} {{ [] | first }}|{{ [] | last }}|{{ 'abc' | first }} {{ 'abc' | last }} {{ map | first }} {{ [none] | first }}
{{ ([] | first).x }}
{{ list | sort }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ list | sort(reverse=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name', reverse=true) | map(attribute='name') | list }} {{ 'hello' | sort }}
{{ [1, 'a'] | sort }}
{{ list | unique | list }} {{ names | unique | list }} {{ names | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }}
{{ map | dictsort }} {{ map | dictsort(true) }} {{ {'a': 3, 'b': 1} | dictsort(by='value') }} {{ {'a': 3, 'b': 1} | dictsort(reverse=true) }}
{{ n | dictsort }}
{{ map | items | list }} {{ missing | items | list }} {{ [] | list }} {{ 'ab' | list }} {{ map | list }} {{ range(3) | list }}
{{ list | items | list }}
{{ people | map(attribute='name') | list }} {{ people | map(attribute='city.name') | list }} {{ people | map(attribute='city', default='-') | list }} {{ names | map('upper') | list }} {{ names | map('replace', 'a', 'A') | list }} {{ people | map(attribute='tags') | map('length') | sum }} {{ [[1, 2], [3]] | map(attribute=0) | list }}
{{ list | map('nope') | list }}
{{ list | map | list }}
{{ list | select('gt', 2) | list }} {{ list | select('odd') | list }} {{ list | reject('even') | list }} {{ [0, 1, '', 'a', none] | select | list }} {{ [0, 1, ''] | reject | list }} {{ list | select('in', [2, 9]) | list }} {{ [1, none] | select('none') | list }}
{{ people | selectattr('age', 'eq', 30) | map(attribute='name') | join }} {{ people | rejectattr('age', '>', 25) | map(attribute='name') | join }} {{ people | selectattr('city') | list | length }} {{ people | selectattr('city.name', 'defined') | list | length }} {{ people | selectattr('city', 'undefined') | list | length }} {{ (people | selectattr('name', 'equalto', 'bob') | first).age }}
{{ list | select('nope') | list }}
{{ list | sum }} {{ people | sum(attribute='age') }} {{ [] | sum }} {{ [0.5, 1] | sum }} {{ [[1], [2]] | sum(start=[]) }} {{ list | max }} {{ list | min }} {{ names | max }} {{ people | max(attribute='age') }} {{ [] | min }}|{{ ['a', 'B'] | min }} {{ ['a', 'B'] | min(case_sensitive=true) }}
{{ '3' | int }} {{ '3.7' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ none | int }} {{ '0x1f' | int(0, 16) }} {{ '101' | int(base=2) }} {{ ' 5 ' | int }} {{ '1_0' | int }} {{ true | int }} {{ '1e3' | int }}
{{ missing | int }}
{{ '3' | float }} {{ '3.50' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ none | float }} {{ '1e3' | float }} {{ 'inf' | float }} {{ '-nan' | float }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42 | round }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(1, 'ceil') }} {{ 1234.5 | round(-2) }} {{ -2.5 | round }} {{ 0.125 | round(2) }} {{ 42.55 | round | int }}
{{ -3 | abs }} {{ -2.5 | abs }} {{ (1, 2) | string }} {{ none | string }} {{ 1.0 | string | length }} {{ list | string | upper }}
{{ 'a' | abs }}
{{ list | reverse | list }} {{ 'abc' | reverse }} {{ face | reverse }} {{ range(3) | reverse | list }} {{ map | reverse | list }}
{{ list | batch(3) | list }} {{ list | batch(3, 0) | list }} {{ list | slice(3) | list }} {{ list | slice(3, 'x') | list }}
{% for age, group in people | groupby('age') %}{{ age }}:{{ group | map(attribute='name') | join(',') }};{% endfor %}{{ (people | groupby('city.name', default='-') | first)[0] }}{% for g in people | groupby('age') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}
{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent(2, blank=true) }}|{{ lines | indent('> ', true, true) }}|{{ 'a' | indent(2) }}|{{ 'a\n' | indent(2) }}|
{{ text | truncate(10) }} {{ text | truncate(10, true) }} {{ text | truncate(10, false, '!', 0) }} {{ text | truncate(100) }} {{ 'abcdefgh' | truncate(5, true, '..', 0) }}
{{ html | escape }} {{ html | e | e }} {{ html | safe }} {{ (html | safe) + '<' }} {{ '<' + ('>' | safe) }} {{ html | forceescape }} {{ html | safe | upper }} {{ ('<' | safe) ~ '<' }} {{ html | safe is escaped }} {{ 'x' | safe is string }} {{ ['<' | safe] }}
{{ html | striptags }} {{ '<!-- x --> a   b <i>c</i>' | striptags }} {{ 'a b/ç&d' | urlencode }} {{ {'a': 1, 'b c': '/'} | urlencode }} {{ text | wordcount }} {{ 'x' | center(5) }}| {{ 1500 | filesizeformat }} {{ 1 | filesizeformat }} {{ 1048576 | filesizeformat(true) }}
{{ 'the quick brown fox jumps' | wordwrap(10) }} {{ 'abcdefghijkl mn' | wordwrap(5) }}
{{ map | tojson }} {{ html | tojson }} {{ word | tojson }} {{ [1, 2.0, 1e20, none, true, missing is defined] | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }} {{ '\n\t\x01\x7f\u2028😀/\\"' | tojson }}
{{ map | tojson(indent=2) }} {{ [] | tojson(indent=2) }} {{ [[], {}] | tojson(indent=1) }} {{ map | tojson(indent='--') }} {{ map | tojson(true, 0) }}
{{ map | tojson(separators=(',', ':')) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ 'é😀' | tojson(ensure_ascii=true) }} {{ map | tojson(false, none, [' , ', ' : '], false) }}
{{ missing | tojson }}
{{ range | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ people | map(attribute='name') | tojson }}
{{ map | attr('b') }}|{{ text | attr('upper') is callable }}|{{ (text | attr('upper'))() }}
{{ n | nope }}
{{ n is nope }}
{{ n is defined }} {{ missing is defined }} {{ missing is undefined }} {{ map.q is defined }} {{ none is none }} {{ missing is none }} {{ n is not none }} {{ not missing is defined }}
{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ '1' is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ true is boolean }} {{ 1 is true }} {{ 0 is false }} {{ false is false }}
{{ 'a' is string }} {{ [] is string }} {{ {} is mapping }} {{ [] is mapping }} {{ [] is sequence }} {{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }} {{ none is sequence }} {{ (1,) is sequence }} {{ list | map('string') is sequence }} {{ missing is sequence }}
{{ [] is iterable }} {{ 'a' is iterable }} {{ {} is iterable }} {{ 1 is iterable }} {{ none is iterable }} {{ missing is iterable }} {{ map.items() is iterable }} {{ list | map('string') is iterable }} {{ range(2) is iterable }}
{{ 3 is odd }} {{ 4 is even }} {{ neg is odd }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'a1' is lower }} {{ '1' is upper }} {{ range is callable }} {{ n is callable }}
{{ n is eq 7 }} {{ n is ne(7) }} {{ n is lt 8 }} {{ n is ge 7 }} {{ n is greaterthan 6 }} {{ n is in [7] }} {{ n is not in [7] }} {{ 'a' is in 'abc' }} {{ n is == 7 }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ none is sameas none }} {{ list is sameas list }} {{ 1 is sameas 1.0 }}
{{ 1 is odd is even }}
{{ 'a' is odd }}
{{ n is defined and n is number or missing.x }} {{ n is divisibleby 2 or n is odd }} {{ 'y' if n is defined else 'n' }} {{ n == 7 is true }}
{{ range(4) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }} {{ range(3) }} {{ range(1, 9, 2) }} {{ range(10)[2:4] | list }} {{ range(10)[-1] }} {{ 3 in range(5) }}
{{ range(100001) | length }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{{ dict(a=1, b=[2]) }} {{ dict(map, z=0) }} {{ dict([('a', 1), ['b', 2]]) }} {{ dict(**{'k': 1}) }} {{ dict() }}
{% set ns = namespace(a=1, b='x') %}{% set ns.a = ns.a + 1 %}{% set ns.c = [ns.a] %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.d is defined }}{{ ns['a'] }}{% set ns2 = namespace({'q': 5}, r=6) %}{{ ns2.q + ns2.r }}
{% set ns = {'a': 1} %}{% set ns.a = 2 %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.next() }} {% set j = joiner() %}{{ j() }}x{{ j() }}y{% set k = joiner('|') %}{{ k() }}{{ k() }}
{{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%d %b %Y, %A %B %-d, %y %j %p %I %a %U %W %w %u %e %f %c %x %X %% %D %T %F %R %h %C') }}
{{ raise_exception('no: ' ~ n) }}
{% if n > 100 %}{{ raise_exception('never') }}{% endif %}fine
{% if n == 1 %}a{% elif n == 7 %}b{% elif missing.x %}c{% else %}d{% endif %}{% if [] %}x{% else %}y{% endif %}{% if not empty %}z{% endif %}{% if 1, 2 %}t{% endif %}
{% for x in list %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.length }}{{ '^' if loop.first }}{{ '$' if loop.last }} {% endfor %}
{% for x in list %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{{ loop.previtem is defined }} {% endfor %}{% for x in list %}{{ loop.changed(x) }}{{ loop.cycle('o', 'e', '-') }}{% endfor %}
{% for x in list if x > 2 %}{{ x }}@{{ loop.index }}of{{ loop.length }}{% endfor %}{% for x in list if x > 20 %}{% else %}none{% endfor %}{% for x in [] %}{{ x }}{% else %}{{ x is defined }}{% endfor %}
{% for k in map %}{{ k }}{% endfor %}{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in map | dictsort %}{{ k }}{% endfor %}{% for c in face %}[{{ c }}]{% endfor %}{% for i in range(3) %}{{ i }}{% endfor %}{% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for p, in [[1], [2]] %}{{ p }}{% endfor %}
{% for x in nothing %}{% endfor %}
{% for x in n %}{% endfor %}
{% for x in missing %}{{ x }}{% else %}empty{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for x in nested recursive %}{% if x is iterable %}<{{ loop.depth }}:{{ loop(x) }}>{% else %}{{ x }}{{ ',' if not loop.last }}{% endif %}{% endfor %}
{% for x in nested recursive %}{{ loop.depth0 }}{% if x is sequence %}{{ loop(x) | upper }}{% endif %}{% else %}nil{% endfor %}
{% for x in list %}{{ loop([1]) }}{% endfor %}
{% for x in list %}{% if x == 9 %}{% break %}{% endif %}{{ x }}{% endfor %}|{% for x in list %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}|{% for x in list %}{% for y in list %}{% if y == 9 %}{% break %}{% endif %}{{ y }}{% endfor %}{{ x }};{% endfor %}|{% for x in list %}{% if x == 2 %}{% if yes %}{% continue %}{% endif %}never{% else %}{{ x }}{% endif %}!{% endfor %}
{% for x in list %}{% with y = x %}{% if y == 9 %}{% break %}{% endif %}{{ y }}{% endwith %}{{ y is defined }}{% endfor %}{% for x in list %}{% for y in [] %}{% else %}{% if x == 2 %}{% continue %}{% endif %}{% endfor %}{{ x }}{% endfor %}
{% set v = none %}{{ v[1:] }}
{{ map[:2] }}
{{ (list | map('string'))[1:] }}
{% set ns = namespace(a=none) %}{{ ns['a'] }}{{ ns['a'] is defined }}{{ ns['a'] is none }}{{ ns['b'] is defined }}
{{ dict(missing) }}
{{ dict(map.q, a=1) }}
{{ namespace(missing) }}
{{ face.zfill(9) }} {{ '-😀'.zfill(4) }} {{ '😀'.zfill(1) }}
{% for x in list %}{% continue %}{% else %}none ended{% endfor %}|{% for x in list %}{% break %}{% else %}none ended{% endfor %}|{% for x in list %}{% if loop.last %}{% break %}{% endif %}{% else %}one ended{% endfor %}|{% for x in list %}{% if loop.first %}{% continue %}{% endif %}{% else %}one ended{% endfor %}|{% for x in list %}{% if not loop.last %}{% continue %}{% endif %}{% else %}the last ended{% endfor %}|{% for x in [1] recursive %}{% continue %}{% else %}none ended{% endfor %}
{% break %}
{% set x = 1 %}{% for i in list %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}{% if yes %}{% set x = 5 %}{% endif %}{{ x }}{% with x = 9 %}{{ x }}{% set x = 10 %}{% endwith %}{{ x }}
{% for i in [1, 2] %}{{ seen is defined }}{% set seen = i %}{{ seen }}{% endfor %}{{ seen is defined }}{{ i is defined }}{{ loop is defined }}
{% for a in [1, 2] %}{% set outer = loop %}{% for b in ['x', 'y'] %}{{ outer.index }}{{ loop.index }}{{ b }}{% endfor %}{% endfor %}
{% set a, b = 1, [2] %}{{ a }}{{ b }}{% set (c, d) = ('x', 'y') %}{{ c }}{{ d }}{% set t = 1, %}{{ t }}{% set e = none %}[{{ e }}]{% set list = list[1:] %}{{ list }}{% set n = n + 1 %}{{ n }}
{% set a, b = [1] %}
{% set body %}<{{ n }}>{% set inner = 1 %}{% endset %}{{ body }}{{ body | length }}{{ inner is defined }}{% set up | upper | replace('A', '4') %}abc{% endset %}{{ up }}
{% with a = 1, b = n %}{{ a }}{{ b }}{% with a = a + 1 %}{{ a }}{% endwith %}{{ a }}{% endwith %}{{ a is defined }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}
{% filter upper %}a{{ word }}{% endfilter %}{% filter trim | replace('x', 'y') %}  x  {% endfilter %}
{% macro m(a, b='x', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}{{ m() }}{{ m(*[1, 2, 3]) }}{{ m(**{'a': 9}) }}{{ m(1) | length }}{{ m(1).upper() }}{{ m.name }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}{{ m(1) }}
{% macro m() %}{{ n }}{{ later }}{% endmacro %}{% set later = 'set' %}{{ m() }}{% for n in [1] %}{{ m() }}{% endfor %}
{% macro fact(k) %}{% if k <= 1 %}1{% else %}{{ k * (fact(k - 1) | int) }}{% endif %}{% endmacro %}{{ fact(10) }}{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}
{% macro box(title) %}<{{ title }}>{{ caller() }}</{{ title }}>{% endmacro %}{% call box('t') %}in {{ n }}{% endcall %}{% macro each(xs) %}{% for x in xs %}{{ caller(x, loop.index) }}{% endfor %}{% endmacro %}{% call(v, i) each(list) %}{{ i }}={{ v }};{% endcall %}{% macro opt() %}{{ caller is defined }}{% endmacro %}{{ opt() }}
{% macro plain() %}x{% endmacro %}{% call plain() %}y{% endcall %}
{% generation %}a{{ n }}{% set g = 1 %}{% endgeneration %}{{ g is defined }}
{% raw %}{{ n }} {% if %} {# no #}{% endraw %}|{%- raw -%}  {{ x }}  {%- endraw -%}  |
{{ {'a': {'b': 1}} }}{{ {'a': {}}['a'] }}{{ '}}' }}{{ "{%" }}{{ '#}' }}
{% print n, 'x' %}{% print list %}
{{ é is defined }}{% set größe = 3 %}{{ größe }}{% set _x1 = 4 %}{{ _x1 }}
{{ -1 | abs }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ 1 + 2 * 3 - 4 / 2 }} {{ 'a' ~ 1 + 2 ~ 'b' }} {{ 10 - 3 - 2 }} {{ 2 * 3 % 4 }} {{ not 1 in [2] }} {{ 1 if 0 else 2 + 3 }} {{ 'a' + 'b' | upper }} {{ [1, 2] | length + 1 }} {{ (n > 3) + 1 }}
{{ ''.__class__ }}
{{ ''.__class__.__mro__ }}
{{ list.__len__ is defined }} {{ map._x is defined }} {{ n.__class__ is defined }}
{{ ''['__class__'] }}
{{ ().__class__.__bases__[0].__subclasses__() }}
{{ range.__globals__ }}
{{ cycler.__init__ }}
{{ text.nope is defined }}|{{ text['upper']() }}|{{ text.nope }}
{{ text.nope() }}
{{ text.upper(1) }}
{{ map.get() }}
{{ messages is defined }}{{ True }}{{ False }}{{ None }}{{ true and True }}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ 'abc }}
{% if yes %}
{% endif %}
{% for x in list %}{% endif %}
{% nope %}
{% set 1 = 2 %}
{% set true = 2 %}
{{ n ! 1 }}
{# open
{% raw %} x
{{ f(a=1, 2) }}
{% macro m(a=1, b) %}{% endmacro %}
{{ }}
{% if %}{% endif %}
{{ a.b. }}
{% else %}
"""

# Templates of several lines: each begins and ends with a line of dashes.
BLOCKS = r"""
---
{% raw %}
  text
  {% endraw %}
after
---
a{# comment #}b{#- trimmed -#} c
 {# own line #}
d
---
{% if yes %}
  indented
{% endif %}
  {% if yes %}
    deeper
  {% endif %}
tail
---
a
  {%- if yes %} b {% endif -%}
  c
---
x {%+ if yes %} y {%+ endif %} z
  {%+ if yes +%}
 kept
{% endif +%}
end
---
{{ n }}
{{- n -}}
  {{ n }}

{{ n }}
---
a {{- ' b ' -}} c {{+ n }} {{ -n }} {{- -n }}
---
{% set x = 1 -%}

   y
{%- set z = 2 %}

z
---
{% for x in [1, 2] %}
  {{ x }}
{% endfor %}
---
{% for x in [1, 2] -%}
  {{ x }}
{%- endfor %}
---
{% filter indent(2, true) %}a
b{% endfilter %}
---
{% if yes %}
  one
{% endif %}
  {% for x in list %}
    {{ x }}
  {% endfor %}
end
---
   {%- if yes -%}
   tight
   {%- endif -%}
   end
---
{% set a = 1 %}
{% set b = 2 %}
{{ a }}{{ b }}
---

{{ n }}

---
first
    {# a comment on its own line #}
second {# beside #} third
    {#- trimmed -#}

fourth
---
{% if yes %}x{% endif %}   
   {% if yes %}y{% endif %}
{{ n }}   {% if yes %}z{% endif %}
---
{%- for m in people %}
{{ loop.index }}. {{ m.name }}
{%- if m.tags %} ({{ m.tags | join(', ') }})
{%- endif %}
{%- endfor %}
---
{% macro item(x) -%}
  * {{ x }}
{%- endmacro %}
{% for x in list %}
{{ item(x) }}
{% endfor %}
---
{% raw %}
  {{ untouched }}
{% endraw %}
{%- raw %} a {% endraw -%}
  b
---
{{ {
  'a': 1,
  'b': [2,
        3],
} | tojson }}
{% set x = (
  1 +
  2
) %}
{{ x }}
---
a
  {%+ if yes %}b
  {%- endif +%}
c
---
"""
