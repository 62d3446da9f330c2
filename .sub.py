import sys
def sub(p, *pairs):
    s=open(p).read()
    for a,b in pairs:
        if a not in s: print("MISSING", p, a[:70]); continue
        s=s.replace(a,b)
    open(p,'w').write(s)
