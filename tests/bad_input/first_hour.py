"""The mistakes of a first hour: what is typed, and the exact text that answers it."""

from __future__ import annotations

PYTHON: dict[str, str] = {
    "smelt.compile('nope.onnx')": "nope.onnx: no such file; nearest: notes.onnx",
    "smelt.compile('goood.onnx')": "goood.onnx: no such file; nearest: good.onnx",
    "smelt.compile('https://example.com/m.onnx')": (
        "https://example.com/m.onnx: no such file; download it first"
    ),
    "smelt.compile('')": "the model's path is empty; give an .onnx file",
    "smelt.compile('empty')": "empty: is a directory; give the .onnx file in it",
    "smelt.compile('saved')": (
        "saved: is a directory; python -m tf2onnx.convert --saved-model saved --output model.onnx"
    ),
    "smelt.compile('empty.onnx')": "empty.onnx: the file is empty",
    "smelt.compile('notes.onnx')": (
        "notes.onnx: not an ONNX model, or a truncated one (6 bytes that do not parse as"
        " ModelProto)"
    ),
    "smelt.compile('m.pt')": (
        "m.pt: a PyTorch file, not an ONNX model; smelt runs no pickled code; export the"
        " model in Python: torch.onnx.export(model, inputs, 'model.onnx'), or"
        " smelt.relay.frontend.from_pytorch(model, [('x', (1, 3, 224, 224))])"
    ),
    "smelt.compile('old.pth')": (
        "old.pth: a PyTorch file, not an ONNX model; smelt runs no pickled code; export"
        " the model in Python: torch.onnx.export(model, inputs, 'model.onnx'), or"
        " smelt.relay.frontend.from_pytorch(model, [('x', (1, 3, 224, 224))])"
    ),
    "smelt.compile('m.tflite')": ("m.tflite: schema version 0\n  supported: 3"),
    "smelt.compile('m.pb')": (
        "m.pb: a TensorFlow graph, not an ONNX model; python -m tf2onnx.convert"
        " --saved-model FOLDER --output model.onnx"
    ),
    "smelt.compile('m.h5')": (
        "m.h5: a Keras model, not an ONNX model; tf2onnx.convert.from_keras(model,"
        " output_path='model.onnx')"
    ),
    "smelt.compile('m.keras')": (
        "m.keras: a Keras model, not an ONNX model; tf2onnx.convert.from_keras(model,"
        " output_path='model.onnx')"
    ),
    "smelt.compile('m.safetensors')": (
        "m.safetensors: weights without a model, not an ONNX model; load them into their"
        " model and export it: torch.onnx.export(model, inputs, 'model.onnx')"
    ),
    "smelt.compile('m.gguf')": (
        "m.gguf: weights without a graph, not an ONNX model; export the model that they"
        " were taken of: torch.onnx.export(model, inputs, 'model.onnx')"
    ),
    "smelt.compile('m.json')": (
        "m.json: a text file, not an ONNX model; smelt takes .onnx and .tflite files"
    ),
    "smelt.compile('m.ort')": (
        "m.ort: onnxruntime's own format, not an ONNX model; give the .onnx file that it"
        " was made of"
    ),
    "smelt.compile('m.onnx.data')": (
        "m.onnx.data: an ONNX model's external data, not an ONNX model; give the .onnx"
        " file beside it"
    ),
    "smelt.compile('pointer.onnx')": (
        "pointer.onnx: a Git LFS pointer, not an ONNX model; git lfs pull fetches the file"
    ),
    "smelt.compile('page.onnx')": (
        "page.onnx: a web page, not an ONNX model; fetch the file itself"
    ),
    "smelt.compile('other.so')": ("other.so: compiled already; smelt.load takes it, and smelt run"),
    "smelt.compile('one.npy')": (
        "one.npy: an array, not an ONNX model; it may be an input of a model"
    ),
    "smelt.compile('cut.onnx')": (
        "cut.onnx: not an ONNX model, or a truncated one (101 bytes that do not parse as"
        " ModelProto)"
    ),
    "smelt.compile('external.onnx')": (
        "external.onnx: tensor 'w' lies in the external file 'weights.bin', which does not exist"
    ),
    "smelt.compile(net)": (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not Net; smelt.compile takes"
        " torch.export.export(model.eval(), (x,));"
        " smelt.relay.frontend.from_pytorch(model, [('x', (1, 3, 224, 224))]) makes a graph"
        " for relay.build"
    ),
    "smelt.compile(session)": (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not InferenceSession; give"
        " the model that the session was made of"
    ),
    "smelt.compile(keras)": (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not Sequential;"
        " tf2onnx.convert.from_keras(model, output_path='model.onnx') makes one of it"
    ),
    "smelt.compile(X)": (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not ndarray; an array is"
        " an input: smelt.compile('model.onnx')(x)"
    ),
    "smelt.compile(exe)": (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not NativeExecutable; is"
        " it compiled already? call it"
    ),
    "smelt.compile(open('good.onnx', 'rb'))": (
        "an ONNX model is a path, bytes or an onnx.ModelProto, not BufferedReader; give"
        " the file's path, or what read() gives"
    ),
    "smelt.compile(None)": ("an ONNX model is a path, bytes or an onnx.ModelProto, not NoneType"),
    "smelt.compile('llvm', 'good.onnx')": (
        "the target is 'good.onnx', which is a model; the model comes first:"
        ' smelt.compile(model, "llvm -mcpu=native")'
    ),
    "smelt.compile('llvm', tiny())": (
        "the target is a ModelProto, which is a model; the model comes first:"
        ' smelt.compile(model, "llvm -mcpu=native")'
    ),
    "smelt.compile('good.onnx', 'cpu')": (
        "unknown target kind 'cpu'; nearest: \"llvm -mcpu=native\", this machine's CPU;"
        " kinds: llvm, c, cuda, nvptx, rocm, opencl, metal, vulkan, webgpu, hexagon,"
        " ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'gpu')": (
        "unknown target kind 'gpu'; today only CPUs can be compiled for, see `smelt targets`:"
        ' "llvm -mcpu=native", this machine\'s CPU; kinds: llvm, c, cuda, nvptx, rocm,'
        " opencl, metal, vulkan, webgpu, hexagon, ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'cuda:0')": (
        "unknown target kind 'cuda:0'; today only CPUs can be compiled for, see `smelt targets`:"
        ' "llvm -mcpu=native", this machine\'s CPU; kinds: llvm, c, cuda, nvptx, rocm,'
        " opencl, metal, vulkan, webgpu, hexagon, ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'NVIDIA')": (
        "unknown target kind 'NVIDIA'; today only CPUs can be compiled for, see `smelt targets`:"
        ' "llvm -mcpu=native", this machine\'s CPU; kinds: llvm, c, cuda, nvptx, rocm,'
        " opencl, metal, vulkan, webgpu, hexagon, ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'cuda')": (
        "target kind 'cuda' cannot be compiled yet; today: llvm, e.g. \"llvm -mcpu=native\""
    ),
    "smelt.compile('good.onnx', 'avx2')": (
        "unknown target kind 'avx2'; nearest: \"llvm -mcpu=native\", this machine's CPU;"
        " kinds: llvm, c, cuda, nvptx, rocm, opencl, metal, vulkan, webgpu, hexagon,"
        " ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'native')": (
        "unknown target kind 'native'; nearest: \"llvm -mcpu=native\", this machine's CPU;"
        " kinds: llvm, c, cuda, nvptx, rocm, opencl, metal, vulkan, webgpu, hexagon,"
        " ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'x86')": (
        "unknown target kind 'x86'; nearest: \"llvm -mcpu=native\", this machine's CPU;"
        " kinds: llvm, c, cuda, nvptx, rocm, opencl, metal, vulkan, webgpu, hexagon,"
        " ext_dev, hybrid, composite"
    ),
    "smelt.compile('good.onnx', 'llmv')": (
        "unknown target kind 'llmv'; nearest: llvm; kinds: llvm, c, cuda, nvptx, rocm,"
        " opencl, metal, vulkan, webgpu, hexagon, ext_dev, hybrid, composite; an example:"
        ' "llvm -mcpu=native"'
    ),
    "smelt.compile('good.onnx', ['llvm'])": "a target is a string or a dictionary, not a list",
    "smelt.compile('good.onnx', thread=1)": (
        "smelt.compile: no option 'thread'; nearest: threads; options: opt_level,"
        " threads, cache_dir, workers, verify, dump_dir, database; arguments: target, shapes,"
        " values, operators, options, progress"
    ),
    "smelt.compile('good.onnx', shape={'x': (2, 3)})": (
        "smelt.compile: no option 'shape'; nearest: shapes; options: opt_level, threads,"
        " cache_dir, workers, verify, dump_dir, database; arguments: target, shapes, values,"
        " operators, options, progress"
    ),
    "smelt.compile('good.onnx', device='cpu')": (
        "smelt.compile: no option 'device'; options: opt_level, threads, cache_dir,"
        " workers, verify, dump_dir, database; arguments: target, shapes, values, operators,"
        " options, progress"
    ),
    "smelt.Options(thread=1)": (
        "smelt.Options: no option 'thread'; nearest: threads; options: opt_level,"
        " threads, cache_dir, workers, verify, dump_dir, database"
    ),
    "smelt.compile('good.onnx', options={'threads': 1})": (
        "smelt.compile: options is a dict; give smelt.Options(threads=1), or the options"
        " themselves as keywords: threads=1"
    ),
    "smelt.compile('good.onnx', threads=0)": (
        "Options.threads is 0; legal: a positive integer, or None for all"
    ),
    "smelt.compile('good.onnx', threads='2')": (
        "Options.threads is '2'; legal: a positive integer, or None for all"
    ),
    "smelt.compile('good.onnx', opt_level=5)": "Options.opt_level is 5; legal: 0 to 3",
    "smelt.compile('good.onnx', progress=True)": (
        "progress is True; legal: a function of (stage, done, total)"
    ),
    "smelt.compile('good.onnx', shapes={'X': (2, 3)})": (
        "good.onnx: shapes names 'X', which is no input; nearest: x\n  inputs: a, x"
    ),
    "smelt.compile('good.onnx', shapes={'x': (2,)})": (
        "good.onnx: shapes gives the input 'x' 1 dimensions, the file 2: (2, 3)"
    ),
    "smelt.compile('good.onnx', shapes=[(2, 3)])": (
        "shapes is a list; give a dict: shapes={'x': (1, 3, 224, 224)}"
    ),
    "smelt.compile('good.onnx', shapes={'x': '1,3,224,224'})": (
        "shapes gives the input 'x' the str '1,3,224,224'; give a tuple of sizes:"
        " shapes={'x': (1, 3, 224, 224)}"
    ),
    "smelt.compile('good.onnx', shapes={'x': 6})": (
        "shapes gives the input 'x' the int 6; give a tuple of sizes: shapes={'x': (1, 3,"
        " 224, 224)}"
    ),
    "smelt.compile('good.onnx', shapes={'x': (-1, 3)})": (
        "good.onnx: shapes gives the input 'x' the extent -1; legal: numbers from 0,"
        " names, expressions"
    ),
    "smelt.compile('good.onnx', shapes={'x': (2.0, 3)})": (
        "good.onnx: shapes gives the input 'x' the extent 2.0; legal: numbers from 0,"
        " names, expressions"
    ),
    "smelt.compile('good.onnx', values=[X])": "values is a list; give a dict: values={'x': array}",
    "smelt.compile('good.onnx', operators=['Relu'])": (
        "operators is a list; give a dict: operators={'domain.Operator': function}"
    ),
    "exe([[1, 2, 3], [4, 5, 6]], X)": (
        "test: input 'x': a list given; arrays are taken: numpy.asarray(x, 'float32')\n"
        "  expected: x float32[2, 3]"
    ),
    "exe([X, X])": (
        "test: 1 inputs given, 2 needed; a list counts as one: exe(*inputs)\n"
        "  inputs: x float32[2, 3]; a float32[2, 3]"
    ),
    "exe(X.astype('float64'), X)": (
        "test: input 'x': dtype float64 given, float32 needed; x.astype('float32')\n"
        "  expected: x float32[2, 3]"
    ),
    "exe(np.ones((3, 3), 'float32'), X)": (
        "test: input 'x': shape [3, 3]: dimension 0 is 3, 2 needed\n  expected: x float32[2, 3]"
    ),
    "exe(X[None], X)": (
        "test: input 'x': shape [1, 2, 3] has rank 3, 2 needed\n  expected: x float32[2, 3]"
    ),
    "exe(X)": ("test: 1 inputs given, 2 needed\n  inputs: x float32[2, 3]; a float32[2, 3]"),
    "exe(x=X)": (
        "test: missing inputs: a float32[2, 3]\n  inputs: x float32[2, 3]; a float32[2, 3]"
    ),
    "exe(X, aa=X)": (
        "test: no input is named 'aa'; nearest: a\n  inputs: x float32[2, 3]; a float32[2, 3]"
    ),
    "exe(X, X, x=X)": "test: input 'x' is given twice, as argument 1 and by name",
    "exe(X, X, X)": ("test: 3 inputs given, 2 needed\n  inputs: x float32[2, 3]; a float32[2, 3]"),
    "exe({'x': X, 'a': X}, a=X)": "test: input 'a' is given twice, in a dict and by name",
    "exe({'x': X}, X)": (
        "test: a dict is given beside other arguments; give all inputs in it\n"
        "  inputs: x float32[2, 3]; a float32[2, 3]"
    ),
    "exe(X, {'a': X})": (
        "test: a dict is given beside other arguments; give all inputs in it\n"
        "  inputs: x float32[2, 3]; a float32[2, 3]"
    ),
    "exe(on_card, X)": (
        "test: input 'x': the OnCard lies on cuda:0, not in the host's memory; copy it"
        " there: x.cpu()\n"
        "  expected: x float32[2, 3]"
    ),
    "exe(with_gradient, X)": (
        "test: input 'x': the WithGradient cannot be read: Can't call numpy() on Tensor"
        " that requires grad. Use tensor.detach().numpy() instead.\n"
        "  expected: x float32[2, 3]"
    ),
    "exe(X, X)['y']": "['y']: this is one array, not results by name; take it as is",
    "several['yy']": "no result 'yy'; nearest: y; results: y, z",
    "several[2]": "no result 2: the model has 2, numbered from 0; results: y, z",
    "several[-3]": "no result -3: the model has 2, numbered from 0; results: y, z",
    "several.numpy()": (
        "the model has 2 results; take one, by number or name: y[0].numpy(); results: y, z"
    ),
    "several.shape": (
        "the model has 2 results; take one, by number or name: y[0].shape; results: y, z"
    ),
    "several.argmax(1)": (
        "the model has 2 results; take one, by number or name: y[0].argmax; results: y, z"
    ),
    "several.z": "the model has 2 results; take one, by number or name: y['z']; results: y, z",
    "exe.run(None, [X, X])": ("test: run: feeds is a list; give a dict: exe.run(None, {'x': x})"),
    "exe.run({'x': X, 'a': X})": (
        "test: run: feeds is a NoneType; give a dict: exe.run(None, {'x': x})"
    ),
    "exe.run(['Y'], {'x': X, 'a': X})": "test: no output 'Y'; nearest: y; outputs: y",
    "exe.run(0, {'x': X, 'a': X})": (
        "test: run: outputs is a int; give a list of names, or None for all:"
        " exe.run(None, {'x': x})"
    ),
    "exe.benchmark(X, X, repeat='3')": "benchmark: repeat is '3'; legal: whole numbers from 1",
    "exe.benchmark(X, X, repeat=0)": "benchmark: repeat is 0; legal: whole numbers from 1",
    "exe.benchmark(X, X, number='x')": "benchmark: number is 'x'; legal: whole numbers from 1",
    "exe.benchmark(X, X, number=2.5)": "benchmark: number is 2.5; legal: whole numbers from 1",
    "exe.profile(X, X, repeat=0)": "profile: repeat is 0; legal: whole numbers from 1",
    "exe.profile(X, X, repeat='3')": "profile: repeat is '3'; legal: whole numbers from 1",
    "smelt.machine_limits('2')": "machine_limits: threads is '2'; legal: whole numbers from 1",
    "smelt.load('nope.so')": "cannot load nope.so: No such file or directory",
    "smelt.load('good.onnx')": (
        "cannot load good.onnx: it is not a library written by smelt's export_library,"
        " but an ONNX model; smelt.compile takes it"
    ),
    "smelt.load('m.pt')": (
        "cannot load m.pt: it is not a library written by smelt's export_library, but a"
        " PyTorch file; smelt runs no pickled code; export the model in Python:"
        " torch.onnx.export(model, inputs, 'model.onnx'), or"
        " smelt.relay.frontend.from_pytorch(model, [('x', (1, 3, 224, 224))])"
    ),
    "smelt.load('other.so')": (
        "cannot load other.so: it is a shared library, but the model at its end is"
        " missing\n"
        "  it was not written by smelt's export_library, or was truncated or stripped"
    ),
    "smelt.load('m.dll')": (
        "cannot load m.dll: it is not a library written by smelt's export_library, but a"
        " library of another system; smelt loads those of Linux"
    ),
    "smelt.load('empty')": "cannot load empty: Is a directory",
    "smelt.load(tiny())": (
        "load takes the path of a compiled file, e.g. 'model.so', not ModelProto"
    ),
    "exe.export_library('nowhere/m.so')": (
        "cannot write nowhere/m.so: the folder nowhere does not exist"
    ),
    "exe.export_library('m')": (
        "cannot write m: files without an ending cannot be written; legal: a shared"
        " library, e.g. model.so, or model.tar"
    ),
    "exe.export_library('m.onnx')": (
        "cannot write m.onnx: .onnx files cannot be written; legal: a shared library,"
        " e.g. model.so, or model.tar"
    ),
    "exe.export_library('m.dll')": (
        "cannot write m.dll: .dll files are libraries of Windows, and the model is"
        " compiled for this machine; legal: a shared library, e.g. model.so, or model.tar"
    ),
    "exe.export_library('m.zip')": (
        "cannot write m.zip: .zip files cannot be written; legal: a shared library, e.g."
        " model.so, or model.tar"
    ),
    "exe.export_library('empty')": (
        "cannot write empty: files without an ending cannot be written; legal: a shared"
        " library, e.g. model.so, or model.tar"
    ),
    "exe.export_library(None)": (
        "cannot write to a NoneType; give the path of a file, e.g. 'model.so'"
    ),
    "exe.export_library('m.so', cc='no-compiler')": (
        "the C compiler cannot be run: no-compiler: No such file or directory"
    ),
    "exe.export_library('m.so', cc='')": (
        "cc is ''; legal: the command of a C compiler, e.g. 'gcc'"
    ),
    "exe.export_library('m.so', cc='true')": "the C compiler, true, wrote no file library.so",
    "smelt.stage_text('good.onnx', 'asmm')": (
        "unknown stage 'asmm'; nearest: asm; stages: graph, fused, layout, tir,"
        " scheduled, lowered, llvm, asm"
    ),
    "smelt.stage_text('good.onnx', 'tir', kernel='fused_relu')": (
        "the model has no kernel 'fused_relu'; nearest: fused_relu_add; kernels: fused_relu_add"
    ),
    "smelt.stage_text('good.onnx', 'graph', kernel='fused_relu_add')": (
        "stage 'graph' is of the whole model, and kernel 'fused_relu_add' is given;"
        " stages of a kernel: tir, scheduled, lowered, llvm, asm"
    ),
}

COMMAND_LINE: dict[str, str] = {
    "compil good.onnx": (
        "no command 'compil'; nearest: compile; commands: compile, run, check, bench,"
        " profile, show, convert, quantize, tune, why, records, memory, micro, targets, devices,"
        " demo; see smelt --help"
    ),
    "good.onnx": (
        "no command 'good.onnx'; nearest: run good.onnx; commands: compile, run, check,"
        " bench, profile, show, convert, quantize, tune, why, records, memory, micro, targets,"
        " devices, demo; see smelt --help"
    ),
    "micro fly good.onnx --board host": "no action 'fly'; actions: run, profile",
    "micro run good.onnx": "missing option '--board'; see smelt micro --help",
    "micro run good.onnx --board m4": (
        "no board 'm4'; boards: mps2-an385, mps2-an386, mps2-an500, mps3-an547, host"
    ),
    "micro run good.onnx --board host -O7": "-O 7: legal: 0, 1, 2, 3, s",
    "micro profile good.onnx --board host -o y.npy": "micro profile: --output belongs to run",
    "micro run good.onnx --board host --input text.npy": (
        "text.npy cannot be read as arrays: it holds no arrays of numbers"
    ),
    "micro run m.so --board host": (
        "m.so is compiled already: this command needs the model itself"
    ),
    "--verison": "no such option: --verison; nearest: --version, --verbose; see smelt --help",
    "compile": "missing argument 'model'; see smelt compile --help",
    "compile good.onnx --tagret llvm": (
        "no such option: --tagret; nearest: --target, --state, --stream; see smelt compile --help"
    ),
    "compile good.onnx -o": "option '-o' requires an argument",
    "compile good.onnx more.onnx": (
        "got unexpected extra argument(s) (more.onnx); see smelt compile --help"
    ),
    "compile nope.onnx": "nope.onnx: no such file; nearest: notes.onnx",
    "compile empty": "empty: is a directory; give the .onnx file in it",
    "compile m.pt": (
        "m.pt: a PyTorch file, not an ONNX model; smelt runs no pickled code; export the"
        " model in Python: torch.onnx.export(model, inputs, 'model.onnx'), or"
        " smelt.relay.frontend.from_pytorch(model, [('x', (1, 3, 224, 224))])"
    ),
    "compile cut.onnx": (
        "cut.onnx: not an ONNX model, or a truncated one (101 bytes that do not parse as"
        " ModelProto)"
    ),
    "compile external.onnx": (
        "external.onnx: tensor 'w' lies in the external file 'weights.bin', which does not exist"
    ),
    "compile good.onnx --target cpu": (
        "unknown target kind 'cpu'; nearest: \"llvm -mcpu=native\", this machine's CPU;"
        " kinds: llvm, c, cuda, nvptx, rocm, opencl, metal, vulkan, webgpu, hexagon,"
        " ext_dev, hybrid, composite"
    ),
    "compile good.onnx --target cuda": (
        "target kind 'cuda' cannot be compiled yet; today: llvm, e.g. \"llvm -mcpu=native\""
    ),
    "compile good.onnx -o m": (
        "cannot write m: files without an ending cannot be written; legal: a shared"
        " library, e.g. model.so, or model.tar, or code and constants alone, model.o"
    ),
    "compile good.onnx -o m.dll": (
        "cannot write m.dll: .dll files are libraries of Windows, and the model is"
        " compiled for this machine; legal: a shared library, e.g. model.so, or model.tar,"
        " or code and constants alone, model.o"
    ),
    "compile good.onnx -o m.onnx": (
        "cannot write m.onnx: .onnx files cannot be written; legal: a shared library,"
        " e.g. model.so, or model.tar, or code and constants alone, model.o"
    ),
    "compile good.onnx -o nowhere/m.so": (
        "cannot write nowhere/m.so: the folder nowhere does not exist"
    ),
    "compile good.onnx -o nowhere/m.o": (
        "cannot write nowhere/m.o: the folder nowhere does not exist"
    ),
    "compile good.onnx --header": (
        "--header writes a header beside the library: give -o FILE.so too"
    ),
    "compile good.onnx --threads 0": (
        "--threads 0: it should be greater than or equal to 1; see smelt compile --help"
    ),
    "compile good.onnx --threads two": (
        "--threads two: it should be a valid integer; see smelt compile --help"
    ),
    "compile good.onnx --opt-level 5": (
        "--opt-level 5: it should be less than or equal to 3; see smelt compile --help"
    ),
    "compile good.onnx --shape 1,3,224,224": (
        "--shape '1,3,224,224' is not of the form NAME=SIZE,SIZE,…; an example: --shape"
        " input=1,3,224,224"
    ),
    "compile good.onnx --shape x=1x3": (
        "--shape 'x=1x3' is not of the form NAME=SIZE,SIZE,…; an example: --shape input=1,3,224,224"
    ),
    "compile good.onnx --shape x=-1,3": (
        "--shape 'x=-1,3' is not of the form NAME=SIZE,SIZE,…; an example: --shape"
        " input=1,3,224,224"
    ),
    "compile good.onnx --shape X=2,3": (
        "good.onnx: shapes names 'X', which is no input; nearest: x\n  inputs: a, x"
    ),
    "compile good.onnx --shape x=2": (
        "good.onnx: shapes gives the input 'x' 1 dimensions, the file 2: (2, 3)"
    ),
    "compile good.onnx --shape x=2,3 --shape x=2,3": "--shape gives input 'x' twice",
    "compile good.onnx --range n=1-16": (
        "--range 'n=1-16' is not of the form NAME=FROM..TO, such as n=1..16"
    ),
    "compile good.onnx --range n=1..16": (
        "--range and --likely name the size 'n', which is no extent in --shape and no"
        " size of the file; the file names none"
    ),
    "compile good.onnx --likely n=x": (
        "--likely 'n=x' is not of the form NAME=NUMBER,NUMBER,…; an example: --likely n=8"
    ),
    "run good.onnx --at n": (
        "--at 'n' is not of the form NAME=NUMBER,NUMBER,…; an example: --at n=8"
    ),
    "run good.onnx --at n=4": "--at n=4: one value for one of the sizes; sizes: none",
    "run good.onnx --shape x=n,3 --shape a=n,3 --at n=4,5": (
        "--at n=4,5: one value for one of the sizes; sizes: n"
    ),
    "run good.onnx --input nope.npy": "nope.npy: there is no such file",
    "run good.onnx --input page.onnx": (
        "page.onnx is neither a .npy nor a .npz file; numpy.save writes one"
    ),
    "run good.onnx --input text.npy": (
        "text.npy cannot be read as arrays: it holds no arrays of numbers"
    ),
    "run good.onnx --input one.npy": (
        "one.npy holds one array, the model has 2 inputs (x, a): give a .npz file with an"
        " array of each name"
    ),
    "run good.onnx --input named.npz": "named.npz holds X, a; the inputs are x, a",
    "run good.onnx --input wide.npz": (
        "good: input 'x': dtype float64 given, float32 needed; x.astype('float32')\n"
        "  expected: x float32[2, 3]"
    ),
    "run good.onnx --input cut.npz": (
        "good: input 'x': shape [1, 3]: dimension 0 is 1, 2 needed\n  expected: x float32[2, 3]"
    ),
    "run good.onnx --output y.csv": "--output y.csv: the name must end in .npy or .npz",
    "run good.onnx --output nowhere/y.npy": (
        "cannot write nowhere/y.npy: the folder nowhere does not exist"
    ),
    "run m.onnx.data": (
        "m.onnx.data: an ONNX model's external data, not an ONNX model; give the .onnx"
        " file beside it"
    ),
    "run nope.so": "cannot load nope.so: No such file or directory",
    "run other.so": (
        "cannot load other.so: it is a shared library, but the model at its end is"
        " missing\n"
        "  it was not written by smelt's export_library, or was truncated or stripped"
    ),
    "run other.so --threads 1": (
        "other.so is compiled already: --target, --shape, --range, --likely, --state,"
        " --threads, --opt-level and --database cannot change it"
    ),
    "check other.so": (
        "other.so is compiled already: say which model its results are to be compared"
        " with, --model other.onnx"
    ),
    "check other.so --model nope.onnx": (
        "cannot load other.so: it is a shared library, but the model at its end is"
        " missing\n"
        "  it was not written by smelt's export_library, or was truncated or stripped"
    ),
    "check good.onnx --model good.onnx": (
        "--model good.onnx: good.onnx is a model itself; it is its own measure"
    ),
    "check good.onnx --tolerance much": (
        "--tolerance much: it should be a valid number; see smelt check --help"
    ),
    "bench good.onnx --against tensorflow": (
        "--against tensorflow: only onnxruntime can be timed beside smelt"
    ),
    "bench good.onnx --seconds 0": (
        "--seconds 0: it should be greater than or equal to 0.01; see smelt bench --help"
    ),
    "show good.onnx --stage foo": (
        "unknown stage 'foo'; stages: graph, fused, layout, tir, scheduled, lowered, llvm, asm"
    ),
    "show good.onnx --stage asmm": (
        "unknown stage 'asmm'; nearest: asm; stages: graph, fused, layout, tir,"
        " scheduled, lowered, llvm, asm"
    ),
    "show good.onnx --kernel fused_relu": (
        "the model has no kernel 'fused_relu'; nearest: fused_relu_add; kernels: fused_relu_add"
    ),
    "show good.onnx -o page.pdf": (
        "cannot write page.pdf: .pdf files cannot be written; legal: a page, e.g."
        " model.html, or text, model.txt"
    ),
    "show other.so": "other.so is compiled already: this command needs the model itself",
    "profile good.onnx --html nowhere/p.html": (
        "cannot write nowhere/p.html: the folder nowhere does not exist"
    ),
    "records": "missing argument 'database'; see smelt records --help",
    "records good.onnx list": (
        "good.onnx: no kind of database; legal: a file of SQLite (NAME.db, NAME.sqlite), of"
        " JSON (NAME.json), a folder with database_workload.json and"
        " database_tuning_record.json, a URL (postgresql://...), :memory:"
    ),
    "records nope.db list": "nope.db: no such file",
    "records nope.db lists": (
        "no action 'lists'; nearest: list; actions: list, best, export, import, merge, prune"
    ),
    "records nope.db import": "import: nothing to read from; give files that export wrote",
    "records nope.db prune": "prune: needs --keep NUMBER",
    "targets all": "got unexpected extra argument(s) (all); see smelt targets --help",
}

ENVIRONMENT: dict[tuple[str, str], str] = {
    ("SMELT_NUM_THREADS", "abc"): (
        "environment variable SMELT_NUM_THREADS='abc' is not a number of threads; legal:"
        " 1 or more, or unset for all CPUs of this process"
    ),
    ("SMELT_NUM_THREADS", "0"): (
        "environment variable SMELT_NUM_THREADS='0' is not a number of threads; legal: 1"
        " or more, or unset for all CPUs of this process"
    ),
    ("SMELT_CACHE", "yes"): "environment variable SMELT_CACHE='yes' is neither 0 nor 1",
    ("SMELT_DUMP", "good.onnx"): (
        "cannot write dumps to HOME/good.onnx: Not a directory; name another folder"
        " (dump_dir, SMELT_DUMP)"
    ),
    ("SMELT_CACHE_DIR", "good.onnx"): (
        "cannot write to the cache folder HOME/good.onnx: Not a directory\n"
        "  name another one (SMELT_CACHE_DIR), or compile without a cache (SMELT_CACHE=0)"
    ),
    ("SMELT_CHECK", "yes"): "SMELT_CHECK is 'yes'; legal: 0 or 1",
}
